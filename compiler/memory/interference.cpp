#include "compiler/memory/interference.h"

#include <algorithm>
#include <numeric>

#include "compiler/memory/clock_table.h"

namespace l2l::compiler::memory {
namespace {

constexpr std::size_t kRowsPerQuestion = 16;

std::vector<Time> times_of(const std::vector<Time>& clocks, const std::vector<Index>& tensors) {
  std::vector<Time> times;
  times.reserve(tensors.size());
  for (const Index t : tensors) times.push_back(clocks[t]);
  return times;
}

// For one stream and a list sorted by begin: the neighbours of position i that come later are the positions from i + 1
// to last[i]; earlier[i] is the number of those that come before.
struct Sweep {
  std::vector<std::size_t> last, earlier;

  Sweep(const Problem& problem, const std::vector<Index>& tensors) {
    const std::vector<Time> begin = times_of(problem.begin, tensors), end = times_of(problem.end, tensors);
    std::vector<Time> ends = end;
    std::sort(ends.begin(), ends.end());
    std::size_t done = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      while (done < ends.size() && ends[done] <= begin[i]) ++done;
      earlier.push_back(i - done);
      last.push_back(static_cast<std::size_t>(std::lower_bound(begin.begin(), begin.end(), end[i]) - begin.begin()) -
                     1);
    }
  }
};

// Makes room for `count` neighbours. Memory that is touched for the first time takes long: 0.3 s per 500 MB. Returns
// whether stop() was true.
bool make_room(std::size_t count, const std::function<bool()>& stop, std::vector<Index>& others) {
  constexpr std::size_t kPerQuestion = 4 << 20;
  others.reserve(count);
  while (others.size() < count) {
    if (stop && stop()) return true;
    others.resize(std::min(count, others.size() + kPerQuestion));
  }
  return false;
}

std::optional<InterferenceGraph> graph_of_intervals(const Problem& problem, const std::vector<Index>& tensors,
                                                    const std::function<bool()>& stop) {
  const Sweep sweep(problem, tensors);
  InterferenceGraph graph;
  graph.starts.reserve(tensors.size() + 1);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    graph.starts.push_back(graph.starts.back() + sweep.earlier[i] + sweep.last[i] - i);
  }
  if (make_room(graph.starts.back(), stop, graph.others)) return std::nullopt;
  std::vector<std::size_t> next(graph.starts.begin(), graph.starts.end() - 1);
  for (std::size_t i = 0; i < tensors.size(); ++i) {  // every earlier neighbour has been entered for i by now
    if (stop && i % kRowsPerQuestion == 0 && stop()) return std::nullopt;
    for (std::size_t j = i + 1; j <= sweep.last[i]; ++j) {
      graph.others[next[i]++] = static_cast<Index>(j);
      graph.others[next[j]++] = static_cast<Index>(i);
    }
  }
  return graph;
}

// Calls visit(i, j) for the neighbours j > i of each i, ascending. In a list sorted by begin, j is never done before i
// begins. Returns whether stop() was true.
template <typename Visit>
bool each_interference(const ClockTable& table, const std::function<bool()>& stop, Visit visit) {
  ClockTable::Mask after;
  for (std::size_t i = 0; i < table.count(); ++i) {
    if (stop && i % kRowsPerQuestion == 0 && stop()) return true;
    for (std::size_t chunk = i / ClockTable::kWidth; chunk * ClockTable::kWidth < table.count(); ++chunk) {
      table.after(i, chunk, after);
      const std::size_t base = chunk * ClockTable::kWidth;
      const std::size_t width = std::min(ClockTable::kWidth, table.count() - base);
      for (std::size_t k = i < base ? 0 : i - base + 1; k < width; ++k) {
        if (after[k] == 0) visit(i, base + k);
      }
    }
  }
  return false;
}

std::optional<InterferenceGraph> graph_of_clocks(const Problem& problem, const std::vector<Index>& tensors,
                                                 const std::function<bool()>& stop) {
  const ClockTable table(problem, tensors);
  InterferenceGraph graph;
  graph.starts.assign(tensors.size() + 1, 0);
  const auto count = [&](std::size_t i, std::size_t j) {
    ++graph.starts[i + 1];
    ++graph.starts[j + 1];
  };
  if (each_interference(table, stop, count)) return std::nullopt;
  std::partial_sum(graph.starts.begin(), graph.starts.end(), graph.starts.begin());
  if (make_room(graph.starts.back(), stop, graph.others)) return std::nullopt;
  std::vector<std::size_t> next(graph.starts.begin(), graph.starts.end() - 1);
  const auto enter = [&](std::size_t i, std::size_t j) {
    graph.others[next[i]++] = static_cast<Index>(j);
    graph.others[next[j]++] = static_cast<Index>(i);
  };
  if (each_interference(table, stop, enter)) return std::nullopt;
  return graph;
}

}  // namespace

std::optional<InterferenceGraph> interference_graph(const Problem& problem, const std::vector<Index>& tensors,
                                                    const std::function<bool()>& stop) {
  if (problem.streams > 1) return graph_of_clocks(problem, tensors, stop);
  return graph_of_intervals(problem, tensors, stop);
}

std::uint64_t count_interferences(const Problem& problem, const std::vector<Index>& tensors,
                                  const std::function<bool()>& stop) {
  std::uint64_t count = 0;
  if (problem.streams == 1) {
    for (const std::size_t earlier : Sweep(problem, tensors).earlier) count += earlier;
    return count;
  }
  each_interference(ClockTable(problem, tensors), stop, [&](std::size_t, std::size_t) { ++count; });
  return count;
}

std::vector<Index> live_tensors(const Problem& problem) {
  std::vector<Index> tensors;
  for (Index t = 0; t < problem.tensors.size(); ++t) {
    if (problem.alive(t)) tensors.push_back(t);
  }
  std::stable_sort(tensors.begin(), tensors.end(), [&](Index a, Index b) {
    const auto x = problem.begin_of(a), y = problem.begin_of(b);
    return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
  });
  return tensors;
}

}  // namespace l2l::compiler::memory

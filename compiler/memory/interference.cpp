#include "compiler/memory/interference.h"

#include <algorithm>

#include "compiler/memory/clock_table.h"

namespace l2l::compiler::memory {
namespace {

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

InterferenceGraph graph_of_intervals(const Problem& problem, const std::vector<Index>& tensors) {
  const Sweep sweep(problem, tensors);
  InterferenceGraph graph;
  graph.starts.reserve(tensors.size() + 1);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    graph.starts.push_back(graph.starts.back() + sweep.earlier[i] + sweep.last[i] - i);
  }
  graph.others.resize(graph.starts.back());
  std::vector<std::size_t> next(graph.starts.begin(), graph.starts.end() - 1);
  for (std::size_t i = 0; i < tensors.size(); ++i) {  // every earlier neighbour has been entered for i by now
    for (std::size_t j = i + 1; j <= sweep.last[i]; ++j) {
      graph.others[next[i]++] = static_cast<Index>(j);
      graph.others[next[j]++] = static_cast<Index>(i);
    }
  }
  return graph;
}

// Calls visit(i, j) for the neighbours j of each i, ascending.
template <typename Visit>
void each_interference(const ClockTable& table, Visit visit) {
  ClockTable::Mask after, before;
  for (std::size_t i = 0; i < table.count(); ++i) {
    for (std::size_t chunk = 0; chunk * ClockTable::kWidth < table.count(); ++chunk) {
      table.after(i, chunk, after);
      table.before(i, chunk, before);
      const std::size_t base = chunk * ClockTable::kWidth;
      const std::size_t width = std::min(ClockTable::kWidth, table.count() - base);
      for (std::size_t k = 0; k < width; ++k) {
        if ((after[k] | before[k]) == 0 && base + k != i) visit(i, base + k);
      }
    }
  }
}

}  // namespace

InterferenceGraph interference_graph(const Problem& problem, const std::vector<Index>& tensors) {
  if (problem.streams == 1) return graph_of_intervals(problem, tensors);
  const ClockTable table(problem, tensors);
  InterferenceGraph graph;
  graph.starts.assign(tensors.size() + 1, 0);
  each_interference(table, [&](std::size_t i, std::size_t j) {
    ++graph.starts[i + 1];
    graph.others.push_back(static_cast<Index>(j));
  });
  for (std::size_t i = 0; i < tensors.size(); ++i) graph.starts[i + 1] += graph.starts[i];
  return graph;
}

std::uint64_t count_interferences(const Problem& problem, const std::vector<Index>& tensors) {
  std::uint64_t count = 0;
  if (problem.streams == 1) {
    for (const std::size_t earlier : Sweep(problem, tensors).earlier) count += earlier;
    return count;
  }
  each_interference(ClockTable(problem, tensors), [&](std::size_t i, std::size_t j) { count += i < j; });
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

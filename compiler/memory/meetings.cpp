#include "compiler/memory/meetings.h"

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

// Of one stream and a list sorted by begin: the later ones that meet place i are the places after it up to last[i]; of
// the earlier ones there are earlier[i].
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

Meetings meet_by_sweep(const Problem& problem, const std::vector<Index>& tensors) {
  const Sweep sweep(problem, tensors);
  Meetings meetings;
  meetings.starts.reserve(tensors.size() + 1);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    meetings.starts.push_back(meetings.starts.back() + sweep.earlier[i] + sweep.last[i] - i);
  }
  meetings.others.resize(meetings.starts.back());
  std::vector<std::size_t> next(meetings.starts.begin(), meetings.starts.end() - 1);
  for (std::size_t i = 0; i < tensors.size(); ++i) {  // all earlier ones have entered themselves with i by now
    for (std::size_t j = i + 1; j <= sweep.last[i]; ++j) {
      meetings.others[next[i]++] = static_cast<Index>(j);
      meetings.others[next[j]++] = static_cast<Index>(i);
    }
  }
  return meetings;
}

// Calls visit(i, j) for all places j, ascending, that meet i.
template <typename Visit>
void meet_by_clocks(const ClockTable& table, Visit visit) {
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

void sort_by_begin(const Problem& problem, std::vector<Index>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [&](Index a, Index b) {
    const auto x = problem.begin_of(a), y = problem.begin_of(b);
    for (std::size_t s = 0; s < x.size(); ++s) {
      if (x[s] != y[s]) return x[s] < y[s];
    }
    return a < b;
  });
}

Meetings meetings_of(const Problem& problem, const std::vector<Index>& tensors) {
  if (problem.streams == 1) return meet_by_sweep(problem, tensors);
  const ClockTable table(problem, tensors);
  Meetings meetings;
  meetings.starts.assign(tensors.size() + 1, 0);
  meet_by_clocks(table, [&](std::size_t i, std::size_t j) {
    ++meetings.starts[i + 1];
    meetings.others.push_back(static_cast<Index>(j));
  });
  for (std::size_t i = 0; i < tensors.size(); ++i) meetings.starts[i + 1] += meetings.starts[i];
  return meetings;
}

std::uint64_t count_meetings(const Problem& problem, const std::vector<Index>& tensors) {
  std::uint64_t count = 0;
  if (problem.streams == 1) {
    for (const std::size_t earlier : Sweep(problem, tensors).earlier) count += earlier;
    return count;
  }
  meet_by_clocks(ClockTable(problem, tensors), [&](std::size_t i, std::size_t j) { count += i < j; });
  return count;
}

std::vector<Index> living(const Problem& problem) {
  std::vector<Index> tensors;
  for (Index t = 0; t < problem.tensors.size(); ++t) {
    if (problem.alive(t)) tensors.push_back(t);
  }
  sort_by_begin(problem, tensors);
  return tensors;
}

}  // namespace l2l::compiler::memory

#include <algorithm>
#include <compare>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "compiler/memory/planner.h"

// One stream: a sweep over time keeps the live tensors in a map by offset; as long as those are disjoint, a newcomer
// can only collide with the two next to it. Several streams: a sweep over addresses keeps the tensors that share one in
// a set by begin; as long as each is done before the next one begins, a newcomer can only clash with the two next to
// it. Shares no code with the solvers, on purpose.
namespace l2l::compiler::memory {
namespace {

using Living = std::map<Bytes, std::size_t>;  // offset -> tensor

std::string clock_text(const Problem& problem, const std::vector<Time>& clocks, std::size_t i) {
  std::string text;
  for (std::size_t s = 0; s < problem.streams; ++s) {
    text += (s == 0 ? "" : ":") + std::to_string(clocks[i * problem.streams + s]);
  }
  return text;
}

std::string place_of(const Problem& problem, const Plan& plan, std::size_t i) {
  const Tensor& t = problem.tensors[i];
  return "'" + t.name + "' (tensor " + std::to_string(i) + ", " + std::to_string(t.size) + " bytes at " +
         std::to_string(plan.offsets[i]) + ", alive in [" + clock_text(problem, problem.begin, i) + ", " +
         clock_text(problem, problem.end, i) + "))";
}

std::string check_placement(const Problem& problem, const Plan& plan) {
  std::vector<bool> follows(problem.tensors.size(), false);
  for (const std::vector<Index>& group : problem.groups) {
    for (std::size_t k = 1; k < group.size(); ++k) follows[group[k]] = true;
  }
  Bytes highest = 0;
  for (std::size_t i = 0; i < plan.offsets.size(); ++i) {
    Bytes end = 0;
    if (__builtin_add_overflow(plan.offsets[i], problem.tensors[i].size, &end)) {
      return place_of(problem, plan, i) + " ends beyond 64 bits";
    }
    if (!follows[i] && plan.offsets[i] % problem.alignment != 0) {
      return place_of(problem, plan, i) + " is not aligned to " + std::to_string(problem.alignment);
    }
    if (plan.offsets[i] != problem.tensors[i].offset.value_or(plan.offsets[i])) {
      return place_of(problem, plan, i) + " is pinned at " + std::to_string(*problem.tensors[i].offset);
    }
    highest = std::max(highest, end);
  }
  if (plan.footprint == highest) return "";
  return "the footprint is " + std::to_string(plan.footprint) + ", the highest end " + std::to_string(highest);
}

std::string check_groups(const Problem& problem, const Plan& plan) {
  for (const std::vector<Index>& group : problem.groups) {
    for (std::size_t k = 1; k < group.size(); ++k) {
      const Index before = group[k - 1];
      if (plan.offsets[group[k]] == plan.offsets[before] + problem.tensors[before].size) continue;
      return place_of(problem, plan, group[k]) + " does not follow " + place_of(problem, plan, before) +
             " in its group";
    }
  }
  return "";
}

std::optional<Clash> clash_of(std::size_t newcomer, std::size_t other) {
  return Clash{static_cast<Index>(newcomer), static_cast<Index>(other)};
}

std::optional<Clash> clash_among_neighbours(const Problem& problem, const Plan& plan, const Living& living,
                                            std::size_t newcomer) {
  const auto next = living.lower_bound(plan.offsets[newcomer]);
  if (next != living.end() && next->first - plan.offsets[newcomer] < problem.tensors[newcomer].size) {
    return clash_of(newcomer, next->second);
  }
  if (next == living.begin()) return std::nullopt;
  const auto before = std::prev(next);
  const Bytes distance = plan.offsets[newcomer] - before->first;
  return distance < problem.tensors[before->second].size ? clash_of(newcomer, before->second) : std::nullopt;
}

bool has_lifetime(const Problem& problem, std::size_t i) {
  for (std::size_t s = 0; s < problem.streams; ++s) {
    if (problem.begin[i * problem.streams + s] < problem.end[i * problem.streams + s]) return true;
  }
  return false;
}

// (time or address, begins, tensor); at equal places, ends come first.
template <typename Place>
using Events = std::vector<std::tuple<Place, bool, std::size_t>>;

std::optional<Clash> sweep_time(const Problem& problem, const Plan& plan) {
  Events<Time> events;
  for (std::size_t i = 0; i < problem.tensors.size(); ++i) {
    if (problem.tensors[i].size == 0 || !has_lifetime(problem, i)) continue;
    events.emplace_back(problem.begin[i], true, i);
    events.emplace_back(problem.end[i], false, i);
  }
  std::sort(events.begin(), events.end());
  Living living;
  for (const auto& [time, begins, i] : events) {
    if (!begins) {
      living.erase(plan.offsets[i]);
      continue;
    }
    if (const std::optional<Clash> found = clash_among_neighbours(problem, plan, living, i)) return found;
    living.emplace(plan.offsets[i], i);
  }
  return std::nullopt;
}

bool ordered(const Problem& problem, std::size_t p, std::size_t q) {
  const Time *const end = &problem.end[p * problem.streams], *const begin = &problem.begin[q * problem.streams];
  return std::equal(end, end + problem.streams, begin, [](Time done, Time starts) { return done <= starts; });
}

std::optional<Clash> sweep_addresses(const Problem& problem, const Plan& plan) {
  Events<Bytes> events;
  for (std::size_t i = 0; i < problem.tensors.size(); ++i) {
    if (problem.tensors[i].size == 0 || !has_lifetime(problem, i)) continue;
    events.emplace_back(plan.offsets[i], true, i);
    events.emplace_back(plan.offsets[i] + problem.tensors[i].size, false, i);
  }
  std::sort(events.begin(), events.end());
  // If p is done before q begins, the clock of its begin comes first, as p has a lifetime.
  const auto begins_first = [&](std::size_t p, std::size_t q) {
    const auto at = [&](std::size_t i) {
      return problem.begin.begin() + static_cast<std::ptrdiff_t>(i * problem.streams);
    };
    const auto order = std::lexicographical_compare_three_way(at(p), at(p + 1), at(q), at(q + 1));
    return std::is_lt(order) || (std::is_eq(order) && p < q);
  };
  std::set<std::size_t, decltype(begins_first)> here(begins_first);
  for (const auto& [address, begins, i] : events) {
    if (!begins) {
      here.erase(i);
      continue;
    }
    const auto place = here.insert(i).first, next = std::next(place);
    if (next != here.end() && !ordered(problem, i, *next)) return clash_of(i, *next);
    if (place == here.begin()) continue;
    const std::size_t before = *std::prev(place);
    if (!ordered(problem, before, i)) return clash_of(i, before);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Clash> find_clash(const Problem& problem, const Plan& plan) {
  return problem.streams == 1 ? sweep_time(problem, plan) : sweep_addresses(problem, plan);
}

std::string validate(const Problem& problem, const Plan& plan) {
  if (plan.offsets.size() != problem.tensors.size()) {
    return std::to_string(plan.offsets.size()) + " offsets for " + std::to_string(problem.tensors.size()) + " tensors";
  }
  if (problem.alignment == 0) return "the alignment is 0";
  if (std::string wrong = check_placement(problem, plan); !wrong.empty()) return wrong;
  if (std::string wrong = check_groups(problem, plan); !wrong.empty()) return wrong;
  const std::optional<Clash> found = find_clash(problem, plan);
  if (!found) return "";
  return place_of(problem, plan, found->tensor) + " overlaps " + place_of(problem, plan, found->other);
}

}  // namespace l2l::compiler::memory

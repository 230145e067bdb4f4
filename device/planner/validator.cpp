#include <map>
#include <set>
#include <tuple>

#include "device/planner/planner.h"

// A sweep over time that keeps the tensors alive in a map by offset: as long as those are disjoint, a newcomer can
// only collide with its two neighbours. Shares nothing with the solver, on purpose.
namespace l2l::device::planner {
namespace {

using Living = std::map<Bytes, std::size_t>;  // offset -> tensor

std::string place_of(const Problem& problem, const Plan& plan, std::size_t i) {
  const Tensor& t = problem.tensors[i];
  return "'" + t.name + "' (tensor " + std::to_string(i) + ", " + std::to_string(t.size) + " bytes at " +
         std::to_string(plan.offsets[i]) + ", alive in [" + std::to_string(t.lower) + ", " + std::to_string(t.upper) +
         "))";
}

std::string check_placement(const Problem& problem, const Plan& plan) {
  Bytes highest = 0;
  for (std::size_t i = 0; i < plan.offsets.size(); ++i) {
    Bytes end = 0;
    if (__builtin_add_overflow(plan.offsets[i], problem.tensors[i].size, &end)) {
      return place_of(problem, plan, i) + " ends beyond 64 bits";
    }
    if (plan.offsets[i] % problem.alignment != 0) {
      return place_of(problem, plan, i) + " is not aligned to " + std::to_string(problem.alignment);
    }
    if (end > highest) highest = end;
  }
  if (plan.footprint == highest) return "";
  return "the footprint is " + std::to_string(plan.footprint) + ", the highest end " + std::to_string(highest);
}

std::string check_neighbours(const Problem& problem, const Plan& plan, const Living& living, std::size_t newcomer) {
  const auto next = living.lower_bound(plan.offsets[newcomer]);
  const auto clash = [&](std::size_t other) {
    return place_of(problem, plan, newcomer) + " overlaps " + place_of(problem, plan, other);
  };
  if (next != living.end() && next->first - plan.offsets[newcomer] < problem.tensors[newcomer].size) {
    return clash(next->second);
  }
  if (next == living.begin()) return "";
  const auto before = std::prev(next);
  const Bytes distance = plan.offsets[newcomer] - before->first;
  return distance < problem.tensors[before->second].size ? clash(before->second) : "";
}

}  // namespace

std::string validate(const Problem& problem, const Plan& plan) {
  if (plan.offsets.size() != problem.tensors.size()) {
    return std::to_string(plan.offsets.size()) + " offsets for " + std::to_string(problem.tensors.size()) + " tensors";
  }
  if (problem.alignment == 0) return "the alignment is 0";
  if (std::string wrong = check_placement(problem, plan); !wrong.empty()) return wrong;

  // (time, begins, tensor), in order; an end comes before a beginning of the same time.
  std::set<std::tuple<std::int64_t, bool, std::size_t>> events;
  for (std::size_t i = 0; i < problem.tensors.size(); ++i) {
    const Tensor& tensor = problem.tensors[i];
    if (tensor.size == 0 || tensor.upper <= tensor.lower) continue;
    events.emplace(tensor.lower, true, i);
    events.emplace(tensor.upper, false, i);
  }
  Living living;
  for (const auto& [time, begins, i] : events) {
    if (!begins) {
      living.erase(plan.offsets[i]);
      continue;
    }
    if (std::string wrong = check_neighbours(problem, plan, living, i); !wrong.empty()) return wrong;
    living.emplace(plan.offsets[i], i);
  }
  return "";
}

}  // namespace l2l::device::planner

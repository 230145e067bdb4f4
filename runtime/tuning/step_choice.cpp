#include "runtime/tuning/step_choice.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace l2l::runtime {
namespace {

constexpr double kEqual = 0.01;  // relative; steps that differ by less are as good
constexpr double kClose = 0.05;  // of steps that were measured once

// By more than `margin` of the other one, and than that many standard errors of their difference.
bool longer(const StepRatio& step, const StepRatio& other, double margin, double errors) {
  const double error = std::hypot(step.noise, other.noise) / std::numbers::sqrt2;  // noise: of two like this
  return step.value > (1 + std::max(margin, errors * error)) * other.value;
}

const StepRatio& least_of(const std::vector<StepRatio>& steps) {
  return *std::min_element(steps.begin(), steps.end(),
                           [](const StepRatio& a, const StepRatio& b) { return a.value < b.value; });
}

}  // namespace

std::vector<std::size_t> worth_measuring_again(const std::vector<StepRatio>& steps) {
  std::vector<std::size_t> found;
  const StepRatio& least = least_of(steps);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].noise > kEqual && !longer(steps[i], least, kClose, 3)) found.push_back(i);
  }
  return found;
}

std::size_t shortest_of(const std::vector<StepRatio>& steps) {
  const StepRatio& least = least_of(steps);
  std::size_t i = 0;
  while (longer(steps[i], least, kEqual, 2)) ++i;
  return i;
}

const Proposal& decide(const std::vector<Proposal>& proposals, const std::vector<StepRatio>& ratios) {
  return proposals.at(ratios.empty() || is_unknown(ratios.front()) ? 0 : shortest_of(ratios));
}

}  // namespace l2l::runtime

// Gradients of one step, by the name of the parameter.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "runtime/engine.h"
#include "runtime/plan/run_plan.h"
#include "tests/support/parameter_state.h"

namespace l2l::testing {

using Gradients = std::map<std::string, std::vector<float>>;

// Runs the step whose minibatch the engine holds. The first moments after it are the gradients times a factor.
inline Gradients gradients_of(const runtime::RunPlan& plan, runtime::Engine& engine) {
  engine.train(0, 1e-3);
  engine.store().complete_updates();
  Gradients gradients;
  const auto& groups = plan.model.layout.groups;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (std::size_t i = 0; i < groups[group].parameters.size(); ++i) {
      std::vector<float>& moment = gradients[groups[group].parameters[i].name];
      moment.resize(static_cast<std::size_t>(groups[group].parameters[i].shape.elements()));
      std::vector<float> master(moment.size()), moment2(moment.size());
      read_state(engine.store(), static_cast<GroupIndex>(group), i, {master, moment, moment2});
    }
  }
  return gradients;
}

inline double norm_of(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += std::pow(static_cast<double>(value), 2);
  return std::sqrt(squares);
}

// The largest over all parameters, relative to the norm of each. Those that are zero up to rounding are left out: the
// bias of the keys shifts all scores of a row equally, which softmax ignores.
inline double difference(const Gradients& a, const Gradients& b) {
  double largest = 0;
  for (const auto& [name, values] : a) {
    std::vector<float> between = b.at(name);
    for (std::size_t i = 0; i < between.size(); ++i) between[i] -= values[i];
    if (norm_of(values) > 1e-7) largest = std::max(largest, norm_of(between) / norm_of(values));
  }
  return largest;
}

}  // namespace l2l::testing

// The optimizer of a run and its settings. Learning rate and bias corrections are set per update.
#pragma once

#include <cstdint>
#include <variant>

#include "optimizers/adamw.h"
#include "optimizers/lamb.h"
#include "optimizers/sgd.h"

namespace l2l::optimizers {

using Optimizer = std::variant<AdamWSettings, LambSettings, SgdSettings>;

// Moments per parameter: 2; SGD has 1, its momentum buffer.
inline int moments_of(const Optimizer& optimizer) { return std::holds_alternative<SgdSettings>(optimizer) ? 1 : 2; }

// The settings for update number `count` (from 1), with learning rate and bias corrections.
inline Optimizer for_update(Optimizer optimizer, float learning_rate, std::uint64_t count) {
  std::visit(
      [&](auto& settings) {
        if constexpr (requires { settings.correction1; }) settings = with_bias_correction(settings, count);
        settings.learning_rate = learning_rate;
      },
      optimizer);
  return optimizer;
}

}  // namespace l2l::optimizers

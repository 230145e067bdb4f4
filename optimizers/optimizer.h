// Which optimizer a run has, with its settings. Learning rate and bias corrections are set per update.
#pragma once

#include <cstdint>
#include <variant>

#include "optimizers/adamw.h"
#include "optimizers/lamb.h"
#include "optimizers/sgd.h"

namespace l2l::optimizers {

using Optimizer = std::variant<AdamWSettings, LambSettings, SgdSettings>;

// Arrays of state per parameter beside the master; SGD has one, its momentum buffer.
inline int moments_of(const Optimizer& optimizer) { return std::holds_alternative<SgdSettings>(optimizer) ? 1 : 2; }

// The settings of update number `count` (from 1) with its learning rate, bias corrections filled in.
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

// Samples a continuation of a prompt through the same layer streaming as training.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "l2l/trainer.h"
#include "runtime/engine.h"

namespace l2l::runtime {

// Tokens after `prompt` (ids below the vocabulary; at least one), sampled one by one with weights of version `step`.
// The context is the last `sequence` tokens. Throws BadInput.
std::vector<std::int32_t> generate(Engine& engine, const RunPlan& plan, std::uint64_t step,
                                   std::span<const std::int32_t> prompt, const GenerateOptions& options);

}  // namespace l2l::runtime

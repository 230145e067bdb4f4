// Continues prompts with sampled tokens; the layers stream through the device as in training.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "l2l/trainer.h"
#include "runtime/engine.h"

namespace l2l::runtime {

// Throws BadInput where the model continues no text.
void check_continues(const RunPlan& plan);

using TakeToken = Trainer::TakeToken;

// Trainer::generate_all(). `step`: version of the weights. A token depends on the last model.sequence tokens before it.
// Throws BadInput.
std::vector<std::vector<std::int32_t>> generate(Engine& engine, const RunPlan& plan, std::uint64_t step,
                                                const std::vector<std::vector<std::int32_t>>& prompts,
                                                const GenerateOptions& options, const TakeToken& take);

// Logits or, with `hidden`, hidden states of every token of one sequence (Trainer::logits, Trainer::hidden_states).
// Throws BadInput.
void predict_sequence(Engine& engine, const RunPlan& plan, std::uint64_t step, std::span<const std::int32_t> tokens,
                      bool hidden, const TakeValues& take);

}  // namespace l2l::runtime

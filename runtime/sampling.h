// Chooses the next token from its logits. The filters are those of Hugging Face transformers, in its order:
// temperature, top-k, top-p.
#pragma once

#include <cstdint>
#include <span>

#include "l2l/trainer.h"

namespace l2l::runtime {

// Throws BadInput naming the field that is out of its range.
void check_sampling(const GenerateOptions& options);

// Divides by the temperature, which is above 0, and makes the logits of tokens that are left out minus infinity. Top-k
// leaves every token whose logit is below the k-th largest. Top-p then leaves the least likely tokens whose
// probabilities, beginning with the smallest, sum to at most 1 - p; of equal ones those of lower ids first. The
// likeliest token always stays.
void filter_logits(std::span<float> logits, const GenerateOptions& options);

// A token drawn from softmax(filtered logits) by `uniform`, in [0, 1); the likeliest at temperature 0. Changes
// `logits`.
std::int32_t draw_token(std::span<float> logits, const GenerateOptions& options, double uniform);

}  // namespace l2l::runtime

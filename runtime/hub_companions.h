// What makes a checkpoint a Hugging Face model directory, besides its weights.
#pragma once

#include "eps/checkpoint/checkpoint.h"
#include "l2l/options.h"

namespace l2l::runtime {

// config.json of the model, and the files of tokenizer and generation that `from` has, the directory that the model was
// last in; empty: none. Where that has another tokenizer than `tokenizer`, as data.tokenizer names it, or none, the
// files of that, under the names by which programs find them. `hash`: text::hash_of() that one, when the run began.
eps::Companions hub_companions(const ModelOptions& model, const std::filesystem::path& from,
                               const std::string& tokenizer = "bytes", std::uint64_t hash = 0);

}  // namespace l2l::runtime

// Model directories for other programs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "l2l/export.h"

namespace l2l {

struct ExportSettings {
  std::string dtype = "fp32";          // of the tensors: "fp32" | "bf16" | "fp16"
  std::string max_shard_size = "5GB";  // of a file; a larger model is written as several and an index; "0": no limit
  bool merge = false;                  // of a checkpoint of adapters: the model with what they add, not them alone
};

// Writes a Hugging Face model directory, `target`, which must not exist: config.json, weights under the names that
// transformers gives them, files of tokenizer and generation. `source`: a checkpoint, a directory of checkpoints (the
// newest is taken whose weights are those that were written: a checkpoint is read twice) or a Hugging Face model
// directory. From a checkpoint of adapters (lora.rank) it becomes a PEFT
// adapter directory, unless they are merged. Frozen parameters are those of model.base, as they are there. Tensors are
// read and written in pieces; `target` appears when all of it is on the disk. `progress`, if given, gets the bytes
// written so far and all of them. Throws BadInput, also when the disk has no room or, with "fp16", where a weight is
// beyond its range, CorruptFile and Error.
L2L_API void export_model(const std::filesystem::path& source, const std::filesystem::path& target,
                          const ExportSettings& settings = {},
                          const std::function<void(std::uint64_t, std::uint64_t)>& progress = {});

struct GgufSettings {
  std::string type = "f16";  // of matrices: "f32" | "f16" | "bf16" | "q8_0" (blocks of 32 elements in 8 bits)
};

// Writes one GGUF file, `target`, which must not exist, for llama.cpp and its relatives: weights, tokenizer, chat
// template. `source` and `progress`: as above. Tensors are read and written in pieces, with at most one tensor in
// memory; `target` appears when all of it is on the disk. Throws BadInput naming what such files cannot express: a
// model that llama.cpp does not know, a tokenizer that it would apply in another way; also when the disk has no room
// or a weight is beyond the range of f16; CorruptFile and Error.
L2L_API void export_gguf(const std::filesystem::path& source, const std::filesystem::path& target,
                         const GgufSettings& settings = {},
                         const std::function<void(std::uint64_t, std::uint64_t)>& progress = {});

// What the pooler of an encoder's Hugging Face directory makes of the hidden state of a sequence's first token,
// [hidden]: tanh(W first + b), [hidden], which is transformers' pooler_output. Models here have no pooler of their own,
// so a checkpoint has none either. Throws BadInput and CorruptFile.
L2L_API std::vector<float> pooler_output(const std::filesystem::path& directory, std::span<const float> first);

}  // namespace l2l

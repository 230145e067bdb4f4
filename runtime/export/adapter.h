// A checkpoint's adapters as a PEFT directory, and what all exports of weights share.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "core/model_layout.h"
#include "l2l/options.h"

namespace l2l::runtime {

// As safetensors name it.
const char* name_in_file(DType dtype);
// `values` of a parameter in `dtype`, in `bytes`, or where they are. Throws BadInput where one is beyond its range.
std::span<const std::byte> narrow(const ParameterSpec& parameter, DType dtype, std::span<const float> values,
                                  std::span<std::byte> bytes);

// Writes adapter_config.json, adapter_model.safetensors and the tokenizer's files into `target`, which exists.
// `options`: of the checkpoint `folder`, which has adapters.
void write_adapter(const std::filesystem::path& folder, const Options& options, DType dtype,
                   const std::filesystem::path& target);

}  // namespace l2l::runtime

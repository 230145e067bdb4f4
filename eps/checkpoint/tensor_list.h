// The tensors of a checkpoint's files, which follow from the layout and the types of the state.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "eps/parameter_store.h"
#include "formats/safetensors_writer.h"

namespace l2l::eps {

struct StateTypes {
  DType wire = DType::f32;
  optimizers::MomentFormats moments;
  int moment_count = 2;  // of the optimizer
};
StateTypes state_types(const ParameterStore& store);
StateTypes state_types(const StoreOptions& options);

// Of both files: Hugging Face transformers requires it of those that they read.
const std::map<std::string, std::string>& checkpoint_metadata();

// The tensors of a file that holds `parts` of every parameter, and the index of each group's first one.
struct TensorList {
  std::vector<formats::TensorToWrite> tensors;
  std::vector<std::size_t> first;

  TensorList(const ModelLayout& layout, const StateTypes& types, std::span<const StatePart> parts, bool without_frozen);
};

// Bytes of the two large files. The others take some KiB, and what other programs need (a tokenizer).
struct CheckpointSize {
  Bytes model = 0, optimizer = 0;
  Bytes bytes() const { return model + optimizer; }
};
CheckpointSize checkpoint_size(const ModelLayout& layout, const StateTypes& types, bool without_frozen);

}  // namespace l2l::eps

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

// Which groups one rank writes.
struct WriterShare {
  int rank = 0;
  std::span<const int> writers;  // by group (ParameterStore::writers())
  bool has(std::size_t group) const { return writers[group] == rank; }
};

// The tensors of a file that holds `parts` of every parameter of the share's groups, and the index of each group's
// first one.
struct TensorList {
  std::vector<formats::TensorToWrite> tensors;
  std::vector<std::size_t> first;

  TensorList(const ModelLayout& layout, const StateTypes& types, std::span<const StatePart> parts, bool without_frozen,
             const WriterShare& share);
};

// How many there are in the files of all ranks.
std::size_t checkpoint_tensors(const ModelLayout& layout, const StateTypes& types, bool without_frozen);

// Bytes of the large files, of all ranks. The others take some KiB, and what other programs need (a tokenizer).
struct CheckpointSize {
  Bytes model = 0, optimizer = 0;
  Bytes largest = 0;  // of one file
  Bytes bytes() const { return model + optimizer; }
};
// As `ranks` ranks write it; `writers`: by group.
CheckpointSize checkpoint_size(const ModelLayout& layout, const StateTypes& types, bool without_frozen,
                               std::span<const int> writers, int ranks);

}  // namespace l2l::eps

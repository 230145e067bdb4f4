// The files of a checkpoint, and what they hold of each parameter.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eps/parameter_store.h"

namespace l2l::eps {

inline constexpr const char* kModelName = "model.safetensors";
inline constexpr const char* kOptimizerName = "optimizer.safetensors";

// Of weights and of moments, which each of `ranks` ranks has written: kModelName, or model-00001-of-00004.safetensors.
std::string model_name(int rank, int ranks);
std::string optimizer_name(int rank, int ranks);
// Of all ranks.
std::vector<std::string> model_names(int ranks);
std::vector<std::string> optimizer_names(int ranks);
// How many ranks wrote a checkpoint that has a file of this name, one of the above; nothing for any other name.
std::optional<int> ranks_of_name(const std::string& name);

inline constexpr std::array<StatePart, 1> kModelParts = {StatePart::master};
inline constexpr std::array<StatePart, 2> kOptimizerParts = {StatePart::moment1, StatePart::moment2};

// Of an optimizer with `moments` moments.
inline std::span<const StatePart> optimizer_parts(int moments) {
  return std::span(kOptimizerParts).first(static_cast<std::size_t>(moments));
}

// Which parts a parameter has: a frozen one has no moments.
inline bool has_part(const ParameterSpec& parameter, StatePart part) {
  return parameter.trained || part == StatePart::master;
}
// The type of its master in a file: a frozen parameter is kept as it crosses the link, of type `wire`.
inline const char* master_dtype(const ParameterSpec& parameter, DType wire) {
  if (parameter.trained || wire == DType::f32) return "F32";
  return wire == DType::bf16 ? "BF16" : "F16";
}

// "h.0.ln_1.weight", "h.0.ln_1.weight.moment1"
std::string tensor_name(const std::string& parameter, StatePart part);

// Elements read or written at a time.
inline constexpr std::int64_t kPiece = 1 << 16;

// Calls function(first, values) for consecutive pieces of `elements` elements, `values` a part of `buffer`.
template <typename F>
void for_each_piece(std::int64_t elements, std::span<float> buffer, const F& function) {
  const std::int64_t most = static_cast<std::int64_t>(buffer.size());
  for (std::int64_t first = 0; first < elements; first += most) {
    function(first, buffer.first(static_cast<std::size_t>(std::min(most, elements - first))));
  }
}

}  // namespace l2l::eps

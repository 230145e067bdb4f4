// What the two files of a checkpoint hold of each parameter, for saving and loading.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/model_layout.h"

namespace l2l::eps {

inline constexpr const char* kModelName = "model.safetensors";
inline constexpr const char* kOptimizerName = "optimizer.safetensors";

enum class Part : std::uint8_t { master, moment1, moment2 };

inline constexpr std::array<Part, 3> kParts = {Part::master, Part::moment1, Part::moment2};
inline constexpr std::array<Part, 1> kModelParts = {Part::master};
inline constexpr std::array<Part, 2> kOptimizerParts = {Part::moment1, Part::moment2};

// Of an optimizer with `moments` moments.
inline std::span<const Part> optimizer_parts(int moments) {
  return std::span(kOptimizerParts).first(static_cast<std::size_t>(moments));
}

// "h.0.ln_1.weight", "h.0.ln_1.weight.moment1"
std::string tensor_name(const std::string& parameter, Part part);

std::size_t largest_parameter(const ModelLayout& layout);  // elements

// Memory for `count` parts of one parameter at a time.
class PartBuffers {
 public:
  PartBuffers(const ModelLayout& layout, std::size_t count)
      : length_(largest_parameter(layout)), memory_(std::make_unique_for_overwrite<float[]>(count * length_)) {}

  std::span<float> part(std::size_t index, const Shape& shape) const {
    return {memory_.get() + index * length_, static_cast<std::size_t>(shape.elements())};
  }

 private:
  std::size_t length_;
  std::unique_ptr<float[]> memory_;
};

}  // namespace l2l::eps

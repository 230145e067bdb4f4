// Rotary position embedding (Su et al., "RoFormer", 2021), and how its frequencies are changed to extend the context.
#pragma once

#include <cstdint>
#include <vector>

namespace l2l::compiler {

struct Attributes;

// The kinds and names of Hugging Face transformers' `rope_parameters`.
struct RotaryScaling {
  enum class Kind : std::uint8_t {
    none,
    linear,   // all frequencies / factor (Chen et al., "Extending Context Window by Positional Interpolation", 2023)
    dynamic,  // a base that grows where the sequence is longer than `positions` ("NTK-aware")
    llama3,   // long wavelengths / factor, short ones as they are, a ramp between (Llama 3.1)
    yarn      // the same with a ramp over dimensions (Peng et al., "YaRN", 2023)
  };
  Kind kind = Kind::none;
  float factor = 1;
  std::int64_t positions = 0;                   // dynamic, llama3, yarn: of the original context
  float low_frequency = 1, high_frequency = 4;  // llama3: the ramp's ends, in wavelengths per original context
  float beta_fast = 32, beta_slow = 1;          // yarn: the ramp's ends, in turns per original context
  bool truncate = true;                         // yarn: the ramp begins and ends at whole dimensions
  float magnitude = 1;                          // yarn: factor of the rotated queries and keys

  bool operator==(const RotaryScaling&) const = default;
};

// Of a rotary op whose heads have `pairs` pairs of elements: by how many radians each pair turns per position.
std::vector<double> rotary_frequencies(const Attributes& attributes, std::int64_t pairs);

}  // namespace l2l::compiler

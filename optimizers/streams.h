// Arguments of a kernel: one run of elements. Plain data; owns nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace l2l::optimizers {

// A moment: `codes` at the run's first element, `scales` (int8) at its block. The run begins at a multiple of 512
// elements from its parameter's first.
struct MomentStream {
  void* codes = nullptr;
  std::uint16_t* scales = nullptr;
};

// Every pointer is at the run's first element.
struct Streams {
  std::size_t count = 0;                   // elements
  const void* const* gradients = nullptr;  // the contributions, in the order in which they are summed
  std::size_t contributions = 0;           // at least 1, if the kernel reads gradients
  float factor = 1;                        // multiplies the sum
  void* wire = nullptr;                    // f32: the master itself; split: its upper halves; beside_f16: the halves
  void* master = nullptr;                  // split: its low halves; beside_f16: the fp32 master; f32: unused
  MomentStream first, second;
  std::uint32_t index = 0;  // of the first element in its group, modulo 2^32; even
  std::uint32_t key = 0;    // of this group's random bits in this update (optimizers/rounding.h)
};

}  // namespace l2l::optimizers

// Four dimensions of a matrix that stands for more than two, made as few and as long as possible.
#pragma once

#include <array>
#include <cstdint>

#include "compiler/ir/graph.h"

namespace l2l::device::kernels {

// The dimensions of `permute`'s result, and how far apart in x the elements of each are. Dimensions of size 1 are left
// out, and those that stay neighbours are one; the last ones of four are used, the others are 1.
struct PermutedDims {
  std::array<std::int64_t, 4> sizes = {1, 1, 1, 1}, strides = {1, 1, 1, 1};

  explicit PermutedDims(const compiler::Attributes& attributes) {
    std::array<std::int64_t, 4> of_x = {1, 1, 1, 1};
    for (std::size_t i = 3; i > 0; --i) of_x[i - 1] = of_x[i] * attributes.dims[i];
    std::size_t last = 4;
    for (std::size_t i = 4; i-- > 0;) {
      const std::size_t axis = attributes.axes[i];
      const std::int64_t size = attributes.dims[axis];
      if (size == 1) continue;
      if (last == 4 || of_x[axis] != strides[last] * sizes[last]) strides[--last] = of_x[axis];
      sizes[last] *= size;
    }
  }
};

// Dimensions of which some are kept. Those of size 1 are left out, and neighbours that are both kept, or both not, are
// one: what is left takes turns. `last_kept`: whether the last one is kept.
struct KeptDims {
  std::array<std::int64_t, 4> sizes = {1, 1, 1, 1};
  bool last_kept = true;

  explicit KeptDims(const compiler::Attributes& attributes) {
    std::size_t last = 4;
    bool before = true;
    for (std::size_t i = 4; i-- > 0;) {
      if (attributes.dims[i] == 1) continue;
      const bool kept = (attributes.kept >> i & 1u) != 0;
      if (last == 4) last_kept = kept;
      if (last == 4 || kept != before) --last;
      sizes[last] *= attributes.dims[i];
      before = kept;
    }
  }
};

}  // namespace l2l::device::kernels

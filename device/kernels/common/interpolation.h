// Linear interpolation along one side of an image that is made `factor` times as large, on the host and in CUDA kernels
// alike: point i lies at (i + 1/2) / factor - 1/2 between the elements, and beyond the first and the last one the edge
// is repeated, as in PyTorch's "bilinear" with align_corners = False.
#pragma once

#include <cstdint>

#include "compiler/ir/graph.h"

namespace l2l::device::kernels {

// (1 - weight) x[first] + weight x[second].
struct Interpolation {
  std::int32_t first, second;
  float weight;

  // The part that element `place` has.
  constexpr float part_of(std::int32_t place) const {
    return (first == place ? 1 - weight : 0.0f) + (second == place ? weight : 0.0f);
  }
};

struct InterpolatedSide {
  std::int32_t extent, factor;  // elements; 2 extent factor is below 2^31

  // Height (0) or width (1) of the image of an upsample.
  InterpolatedSide(const compiler::Attributes& attributes, std::size_t side)
      : extent(static_cast<std::int32_t>(attributes.dims[1 + side])), factor(attributes.image_window.stride[side]) {}

  constexpr std::int32_t points() const { return extent * factor; }

  constexpr Interpolation at(std::int32_t point) const {
    const std::int32_t twice = 2 * point + 1 - factor;  // 2 factor times its place
    const std::int32_t halves = twice > 0 ? twice : 0, first = halves / (2 * factor);
    return {first, first + 1 < extent ? first + 1 : first,
            static_cast<float>(halves - 2 * factor * first) / static_cast<float>(2 * factor)};
  }

  // Calls take(point, part of the element) for the points in which element `place` has a part, in ascending order.
  template <typename Take>
  constexpr void for_points_of(std::int32_t place, const Take& take) const {
    const std::int32_t begin = place > 0 ? (place - 1) * factor : 0;
    const std::int32_t end = place + 2 < extent ? (place + 2) * factor : points();
    for (std::int32_t point = begin; point < end; ++point) {
      const float part = at(point).part_of(place);
      if (part > 0) take(point, part);
    }
  }
};

}  // namespace l2l::device::kernels

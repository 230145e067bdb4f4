// A tensor shape of at most eight dimensions; allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

#include "core/checked.h"

namespace l2l {

class Shape {
 public:
  static constexpr std::size_t kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) {
    for (const std::int64_t dim : dims) push_back(dim);
  }

  void push_back(std::int64_t dim) {
    if (rank_ == kMaxRank) throw BadInput("a shape of more than " + std::to_string(kMaxRank) + " dimensions");
    if (dim < 0) throw BadInput("shape: negative dimension " + std::to_string(dim));
    dims_[rank_++] = dim;
  }

  std::size_t rank() const { return rank_; }
  std::int64_t operator[](std::size_t i) const { return dims_[i]; }

  // Product of the dimensions; 1 for a scalar. Throws BadInput on overflow.
  std::int64_t elements() const {
    std::uint64_t product = 1;
    for (std::size_t i = 0; i < rank_; ++i)
      product = checked_multiply(product, static_cast<std::uint64_t>(dims_[i]), "shape");
    if (product > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw BadInput("shape " + to_string() + ": has more elements than 63 bits count");
    }
    return static_cast<std::int64_t>(product);
  }

  bool operator==(const Shape&) const = default;

  // "[2, 3]"
  std::string to_string() const {
    std::string text = "[";
    for (std::size_t i = 0; i < rank_; ++i) text += (i ? ", " : "") + std::to_string(dims_[i]);
    return text + "]";
  }

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  std::size_t rank_ = 0;
};

}  // namespace l2l

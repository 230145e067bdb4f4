// An fp32 array in rows of sixteen elements, for masters and moments in fp32.
#pragma once

#include <cstddef>

#include "optimizers/vector/prefetch.h"
#include "optimizers/vector/tail.h"

namespace l2l::optimizers {

template <class P>
class FloatRows {
 public:
  explicit __attribute__((always_inline)) FloatRows(void* at) : at_(static_cast<float*>(at)) {}

  __attribute__((always_inline)) void prefetch(std::size_t i) const { prefetch_rows(at_ + i); }
  template <bool kTail>
  __attribute__((always_inline)) P load(std::size_t i, std::size_t count) const {
    return load_row<kTail>(
        at_ + i, count, [](const float* from) __attribute__((always_inline)) { return P::load(from); });
  }
  template <bool kTail>
  __attribute__((always_inline)) void store(std::size_t i, std::size_t count, P value) const {
    store_row<kTail>(
        at_ + i, count, [&](float* to) __attribute__((always_inline)) { value.store(to); });
  }
  // Elements [i, i + 32).
  __attribute__((always_inline)) Pair<P> load_pair(std::size_t i) const {
    return optimizers::load_pair<P>([&](std::size_t k) __attribute__((always_inline)) { return P::load(at_ + i + k); });
  }
  __attribute__((always_inline)) void store_pair(std::size_t i, Pair<P> value) const {
    optimizers::store_pair(
        value, [&](std::size_t k, P row) __attribute__((always_inline)) { row.store(at_ + i + k); });
  }

 private:
  float* at_;
};

}  // namespace l2l::optimizers

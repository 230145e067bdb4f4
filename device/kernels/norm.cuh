// What the norms share: who holds which part of a row.
#pragma once

#include <type_traits>

#include "device/kernels/common/floats.cuh"
#include "device/kernels/common/launch.cuh"
#include "device/kernels/common/reduce.cuh"
#include "device/kernels/common/rows.cuh"

namespace l2l::device::cuda {

// A row lies in the registers of kThreads threads, kPacks packs of 16 bytes each: pack p of thread t is pack
// t + p * kThreads of the row. Rows of one warp share a block of 128 threads and need no barrier.
template <int kThreads_, int kPacks_>
struct RowShape {
  static constexpr int kThreads = kThreads_, kPacks = kPacks_;
};

// Calls run(RowShape) with the first shape of those below that holds rows of `packs` packs. Returns false when the last
// one does not. By the number of packs alone: it decides the order of additions.
template <typename First, typename... Others, typename Run>
bool with_row_shape(std::int64_t packs, const Run& run) {
  if (packs <= First::kThreads * First::kPacks) {
    run(First{});
    return true;
  }
  if constexpr (sizeof...(Others) > 0) return with_row_shape<Others...>(packs, run);
  return false;
}

}  // namespace l2l::device::cuda

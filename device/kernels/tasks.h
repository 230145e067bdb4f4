// Tasks that each have a share of a product's work.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/workers.h"
#include "device/kernels/common/partition.h"

namespace l2l::device::kernels {

// Calls take(task, slot) for [0, tasks), in parallel; `products`: the multiplications and additions of all of them. A
// worker takes as many at a time as hide the cost of scheduling them.
template <typename Take>
void for_tasks(Workers& workers, std::int64_t tasks, std::int64_t products, const Take& take) {
  constexpr std::int64_t kBlockProducts = 1 << 16;
  const Partition blocks{tasks,
                         std::max<std::int64_t>(1, kBlockProducts * tasks / std::max<std::int64_t>(1, products))};
  workers.parallel_for(blocks.count(), [&](std::int64_t block, int slot) {
    for (std::int64_t task = blocks.begin(block); task < blocks.end(block); ++task) take(task, slot);
  });
}

}  // namespace l2l::device::kernels

// What cross entropy of each row and its gradient share on the host.
#pragma once

#include <string>
#include <string_view>

#include "device/kernels/common/partition.h"
#include "device/kernels/softmax_rows.h"
#include "l2l/errors.h"

namespace l2l::device::kernels {

// Rows of logits with a target each: a column, or -1 for none.
class TargetRows {
 public:
  TargetRows(std::string_view op, std::int64_t rows, std::int64_t columns) : op_(op), rows_(rows), lines_{columns} {}

  std::int64_t columns() const { return lines_.columns; }
  Bytes workspace(int threads) const { return lines_.workspace(threads); }

  // Calls take(row, target, line), with a line of fp32 of a row's size, for each row in parallel. Throws BadInput for a
  // target that is neither a column nor -1.
  template <typename Take>
  void for_each(const std::int32_t* targets, std::byte* workspace, Workers& workers, const Take& take) const {
    const Partition blocks = row_blocks(rows_, columns());
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int slot) {
      float* const line = lines_.of(workspace, slot);
      for (std::int64_t row = blocks.begin(block); row < blocks.end(block); ++row) {
        const std::int64_t target = targets[row];
        if (target < -1 || target >= columns()) throw_bad_target(target, row);
        take(row, target, line);
      }
    });
  }

 private:
  [[noreturn]] void throw_bad_target(std::int64_t target, std::int64_t row) const {
    throw BadInput(std::string(op_) + ": target " + std::to_string(target) + " in row " + std::to_string(row) +
                   " of the microbatch is neither one of " + std::to_string(columns()) + " columns nor -1");
  }

  std::string_view op_;
  std::int64_t rows_;
  WorkerLines lines_;
};

}  // namespace l2l::device::kernels

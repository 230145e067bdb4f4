// What forward and backward of linear_cross_entropy share. The logits of all rows never exist at once: rows are taken
// in chunks, in ascending order.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "device/kernels/matmul.h"
#include "device/kernels/partition.h"

namespace l2l::device::kernels {

// Rows whose fp32 logits take 16 MiB, between 64 (fewer would read the table too often) and 1024.
inline Partition logit_chunks(std::int64_t rows, std::int64_t vocabulary) {
  const std::int64_t fitting = (std::int64_t{4} << 20) / vocabulary / 16 * 16;
  return {rows, std::min(rows, std::clamp<std::int64_t>(fitting, 64, 1024))};
}

// One matrix product per chunk: all chunks but the last have the same number of rows.
class ChunkProduct {
 public:
  ChunkProduct(Partition chunks, const std::function<MatmulShape(std::int64_t rows)>& shape_of) {
    plans_.emplace_back(shape_of(chunks.size));
    if (chunks.total % chunks.size != 0) plans_.emplace_back(shape_of(chunks.total % chunks.size));
    last_ = chunks.count() - 1;
  }

  Bytes workspace(int threads) const {
    return std::max(plans_.front().workspace(threads), plans_.back().workspace(threads));
  }
  void run(std::int64_t chunk, const MatmulOperands& operands, std::byte* workspace, Workers& workers) const {
    (chunk == last_ ? plans_.back() : plans_.front()).run(operands, workspace, workers);
  }

 private:
  std::vector<MatmulPlan> plans_;
  std::int64_t last_ = 0;
};

// logits f32 [rows, vocabulary] = x [rows, hidden] table^T.
MatmulShape logits_shape(std::int64_t rows, std::int64_t vocabulary, std::int64_t hidden, DType dtype);

struct RowLoss {
  double loss;  // logsumexp - logit of the target
  float highest;
  float sum;  // of e^(logit - highest)
};

// `target` lies in [0, vocabulary).
RowLoss row_loss(const float* logits, std::int64_t vocabulary, std::int64_t target);

}  // namespace l2l::device::kernels

// Kernels that turn panels of logits into softmax statistics and gradients, called from host code. Counterpart of
// panel_cross_entropy.h: the same numbers, rounded at the same places.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/dtype.h"
#include "device/device.h"

namespace l2l::device::cuda {

// A panel of logits, f32 [rows, tokens] with `stride` elements from row to row, and what belongs to its rows.
struct LogitPanel {
  float* logits;        // 16-byte aligned
  std::int64_t stride;  // a multiple of 8
  std::int64_t rows, tokens;
  const std::byte* bias;  // of its tokens, compute dtype, 16-byte aligned; or null
  const std::int32_t* targets;
  double* statistics;       // [rows, 3], graph.h
  std::int64_t first;       // token of the first logit; in a chunk of the vocabulary counted from the chunk's first
  std::int64_t vocabulary;  // all tokens there are
  bool chunk;               // LaunchParameters::first_token counts
  float softcap;            // c: logits l, bias included, become c tanh(l / c); 0: none
};

enum class SoftmaxStep {
  begin,          // statistics = those of these logits
  add,            // statistics += those of these logits
  differentiate,  // logits become dlogits by the statistics
  both,           // begin, then differentiate
};

// Rows whose target is negative are not predicted: their statistics stay as they are, their dlogits are 0. Those whose
// target is outside the vocabulary get NaN for the logit of their target, and so for the loss: a bad token stops the
// run. dlogits [rows, tokens] = (softmax - 1 at the target) loss_scale, rounded to `dtype`, replace the logits: each
// row begins where its logits began. One block per row; sums in f32 by thread, then in f64, always in the same order.
// Moves the logits once (begin, add), once and the dlogits once (differentiate), or twice and the dlogits once (both).
void enqueue_softmax(SoftmaxStep step, DType dtype, const LogitPanel& panel, const LaunchParameters* parameters,
                     cudaStream_t stream);

// What devices that have shares of the table exchange of a row.
struct RowState {
  float highest, target_logit;
  double sum;  // of e^(logit - highest)
};

// states [rows] = statistics [rows, 3] of rows with a target. Moves 24 bytes in and 16 out for each row.
void enqueue_pack_states(const double* statistics, const std::int32_t* targets, std::int64_t rows, RowState* states,
                         cudaStream_t stream);
// statistics [rows, 3] = those of the whole table, of states [devices, rows], which are added in the order of devices;
// of rows with a target. Moves 16 bytes in for each device and row, and 24 out for each row.
void enqueue_merge_states(const RowState* states, int devices, const std::int32_t* targets, std::int64_t rows,
                          double* statistics, cudaStream_t stream);

// dbias f32 [tokens] += sum over rows of a panel's dlogits (column_sums.cuh). Moves the dlogits once. `workspace`: at
// least column_sums_workspace() bytes, 16-byte aligned.
Bytes column_sums_workspace(DType dtype, std::int64_t rows, std::int64_t tokens, std::int64_t stride);
void enqueue_column_sums(DType dtype, const LogitPanel& panel, float* dbias, std::byte* workspace, cudaStream_t stream);

// loss f64 [1] = sum of the losses of all rows with a target. Statistics f64 [rows, 3].
void enqueue_loss(const double* statistics, const std::int32_t* targets, std::int64_t rows, double* loss,
                  cudaStream_t stream);

// destination [count] = source f32, rounded to `dtype`. Both are 16-byte aligned.
void enqueue_narrow(DType dtype, const float* source, std::byte* destination, std::int64_t count, cudaStream_t stream);

}  // namespace l2l::device::cuda

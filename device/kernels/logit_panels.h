// How the losses cut their logits, which never exist all at once. A panel is a chunk of rows by a part of the
// vocabulary; panels follow in ascending order of both. Cuts depend on the shape and Context::logits alone.
#pragma once

#include "device/kernels/common/partition.h"
#include "device/kernels/matmul_plan.h"

namespace l2l::device::cuda {

// Chunks and parts begin at multiples of 64: every panel, row of x, row of the table and bias starts 16-byte aligned.
struct LogitPanels {
  kernels::Partition rows, tokens;

  // Chunks of at most 4096 rows by parts of at most 8192 tokens: for passes that see each panel once. A panel has
  // `limit` bytes at most, or 64 tokens.
  static LogitPanels parts(std::int64_t rows, std::int64_t vocabulary, Bytes limit);
  // The whole vocabulary by as many rows as fit into `limit`, so that one pass makes logits and turns them into
  // gradients; but parts() where fewer than 512 rows fit: then adding to all of the table's gradient once per chunk
  // costs more than making the logits twice.
  static LogitPanels whole_rows(std::int64_t rows, std::int64_t vocabulary, Bytes limit);
  // whole_rows() of a device's share of a table, `own` tokens of at most `share`: all devices cut rows alike.
  static LogitPanels of_share(std::int64_t rows, std::int64_t share, std::int64_t own, Bytes limit);

  // f32 elements from row to row of a panel: a multiple of 8.
  std::int64_t stride() const { return (tokens.size + 7) / 8 * 8; }
  std::int64_t elements() const { return rows.size * stride(); }
  std::int64_t rows_of(std::int64_t chunk) const { return rows.end(chunk) - rows.begin(chunk); }
  std::int64_t tokens_of(std::int64_t part) const { return tokens.end(part) - tokens.begin(part); }
};

// The products of a panel. dlogits lie in the panel's memory, in the compute dtype, each row where its logits begin.
MatmulShape logits_shape(const LogitPanels& panels, std::int64_t rows, std::int64_t tokens, std::int64_t hidden,
                         DType dtype);  // logits f32 = x table^T
MatmulShape dx_shape(const LogitPanels& panels, std::int64_t rows, std::int64_t tokens, std::int64_t hidden,
                     DType dtype, DType output);  // dx = dlogits table
MatmulShape dtable_shape(const LogitPanels& panels, std::int64_t rows, std::int64_t tokens, std::int64_t hidden,
                         DType dtype);  // dtable f32 = dlogits^T x

}  // namespace l2l::device::cuda

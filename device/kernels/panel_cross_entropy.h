// What forward and backward of linear_cross_entropy share. The logits never exist all at once: they are made a panel at
// a time (a chunk of rows by a part of the vocabulary), in ascending order of both.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "device/kernels/common/operands.h"
#include "device/kernels/common/partition.h"
#include "device/kernels/matmul.h"

namespace l2l::device::kernels {

struct LogitPanels {
  Partition rows, tokens;

  // Panels of at most 4 Mi logits (16 MiB). A vocabulary of up to 8192 is one part; a larger one is cut, and not the
  // rows, so that each weight of the table and of its gradient is visited once per 2048 rows.
  LogitPanels(std::int64_t total_rows, std::int64_t vocabulary);
  // Parts of at most 2048 tokens: wider ones gain nothing where every pass makes its logits again.
  static LogitPanels narrow(std::int64_t total_rows, std::int64_t vocabulary);
  std::int64_t elements() const { return rows.size * tokens.size; }
};

// One matrix product per size of panel; only the last chunk and the last part may be smaller than the others.
class PanelProduct {
 public:
  using ShapeOf = std::function<MatmulShape(std::int64_t rows, std::int64_t tokens)>;
  PanelProduct(const LogitPanels& panels, const ShapeOf& shape_of);

  Bytes workspace(int threads) const;
  void run(std::int64_t chunk, std::int64_t part, const MatmulOperands& operands, std::byte* workspace,
           Workers& workers) const;

 private:
  LogitPanels panels_;
  std::vector<MatmulPlan> plans_;  // [whole, last chunk of rows][whole, last part of tokens]
};

// The two products of dlogits [rows, tokens], added to f32 sums: dx [rows, hidden] += dlogits table, and
// dtable [tokens, hidden] += dlogits^T x.
MatmulShape dx_sum_shape(std::int64_t rows, std::int64_t tokens, std::int64_t hidden, DType dtype);
MatmulShape dtable_shape(std::int64_t rows, std::int64_t tokens, std::int64_t hidden, DType dtype);

// Softmax of one row, part by part.
struct RowState {
  float highest;  // logit so far
  float target_logit;
  double sum;  // of e^(logit - highest) so far

  static RowState empty();
  double loss() const;  // logsumexp - logit of the target
};

// Statistics of one row between launches, f64 [3] (graph.h): highest logit, sum, logit of the target. A sum of 0: no
// logit was seen yet.
RowState load_state(const double* statistics);
void store_state(const RowState& state, double* statistics);
// Logits of one panel that become gradients.
template <typename T>
struct PanelGradient {
  std::int64_t rows, tokens;
  const std::int32_t* targets;  // of the rows; below 0: not predicted
  std::int64_t first_token;     // of the panel; targets may lie outside of it
  const RowState* states;       // of the rows
  float loss_scale;
  float softcap;        // 0: none
  const float* logits;  // [rows, tokens], capped
  T* dlogits;           // [rows, tokens]; float may be `logits` itself
  float* dbias;         // [tokens]; null without
};

// dlogits = (softmax - 1 at the target) * loss_scale, zeros where a row is not predicted; dbias += their sum over rows.
// T: float, bf16 or f16.
template <typename T>
void differentiate_panel(const PanelGradient<T>& panel, Workers& workers);

// What logits are made of: x [rows, hidden] table^T + bias, all of one dtype.
struct LogitOperands {
  const std::byte* x;
  const std::byte* table;
  const std::byte* bias;  // [vocabulary]; null without
};

// The pass over all parts that finds each row's state. Rows with a negative target are not predicted.
class SoftmaxPass {
 public:
  // `softcap`: logits l become c tanh(l / c); 0: they stay.
  SoftmaxPass(std::string_view op, LogitPanels panels, std::int64_t hidden, DType dtype, bool bias, float softcap);

  struct Buffers {
    float* logits;     // one panel
    RowState* states;  // one chunk
    double* losses;    // all rows
  };
  Buffers take(WorkspaceCutter& cutter) const;
  Bytes product_workspace(int threads) const { return product_.workspace(threads); }
  const LogitPanels& panels() const { return panels_; }
  float softcap() const { return softcap_; }

  // Finds states and losses of a chunk; the logits of its last part stay. Throws BadInput for a token outside the
  // vocabulary.
  void run(std::int64_t chunk, const LogitOperands& operands, const std::int32_t* targets, const Buffers& buffers,
           std::byte* product_workspace, Workers& workers) const;
  // The inner part of run(): adds the logits of all parts to the states of a chunk. The table's first row is that of
  // `first_token`; targets may lie outside of it.
  void take_table(std::int64_t chunk, const LogitOperands& operands, const std::int32_t* targets,
                  std::int64_t first_token, const Buffers& buffers, std::byte* product_workspace,
                  Workers& workers) const;
  // Makes the logits of one panel, capped.
  void make_logits(std::int64_t chunk, std::int64_t part, const LogitOperands& operands, const Buffers& buffers,
                   std::byte* product_workspace, Workers& workers) const;
  // Sum of all losses, in ascending order of row.
  double total(const Buffers& buffers) const;

 private:
  void take_part(std::int64_t chunk, std::int64_t part, const std::int32_t* targets, std::int64_t first_token,
                 const Buffers& buffers, Workers& workers) const;

  std::string_view op_;  // a literal
  Bytes row_bytes_;      // of x and of the table
  Bytes element_bytes_;
  float softcap_;
  LogitPanels panels_;
  PanelProduct product_;
};

}  // namespace l2l::device::kernels

// What the losses share. The logits never exist all at once: they are made a panel at
// a time (a chunk of rows by a part of the vocabulary), in ascending order of both.
#pragma once

#include <string_view>

#include "compiler/ir/exchanges.h"
#include "device/kernels/common/operands.h"
#include "device/kernels/common/panel_product.h"
#include "device/kernels/matmul.h"
#include "device/kernels/tensor_exchange.h"

namespace l2l::device::kernels {

struct LogitPanels {
  Partition rows, tokens;

  // Panels of at most 4 Mi logits (16 MiB). A vocabulary of up to 8192 is one part; a larger one is cut, and not the
  // rows, so that each weight of the table and of its gradient is visited once per 2048 rows.
  LogitPanels(std::int64_t total_rows, std::int64_t vocabulary);
  // Parts of at most 2048 tokens: wider ones gain nothing where every pass makes its logits again.
  static LogitPanels narrow(std::int64_t total_rows, std::int64_t vocabulary);
  // Of x and the table, the first inputs of `op`. Where devices have shares of the table, all cut rows alike.
  static LogitPanels of_share(const OpView& op);
  std::int64_t elements() const { return rows.size * tokens.size; }

 private:
  void set_tokens(std::int64_t vocabulary);
};

// Softmax of one row, part by part.
struct RowState {
  float highest;  // logit so far
  float target_logit;
  double sum;  // of e^(logit - highest) so far

  static RowState empty();
  // With the logits of other tokens, of which some may be of the target.
  void merge(const RowState& other);
  double loss() const;  // logsumexp - logit of the target
};

// What devices exchange.
static_assert(sizeof(RowState) == compiler::kRowStatisticsBytes);

// Statistics of one row between launches, f64 [3] (graph.h): highest logit, sum, logit of the target. A sum of 0: no
// logit was seen yet.
RowState load_state(const double* statistics);
void store_state(const RowState& state, double* statistics);

// What logits are made of: x [rows, hidden] table^T + bias, all of one dtype.
struct LogitOperands {
  const std::byte* x;
  const std::byte* table;
  const std::byte* bias;        // [vocabulary]; null without
  const std::int32_t* targets;  // of the rows; below 0: not predicted
  std::int64_t first_token;     // of the table; targets may lie outside of it
};

// The pass over all parts that finds each row's state. Rows with a negative target are not predicted.
class SoftmaxPass {
 public:
  // The first inputs of `op` are x, table and targets. `bias`: where its bias is, if it has that many inputs. Throws
  // BadInput for other dtypes than those of ops.def.
  SoftmaxPass(const OpView& op, const LogitPanels& panels, std::size_t bias = 3);

  struct Buffers {
    float* logits;     // one panel
    RowState* states;  // one chunk
    RowState* merged;  // the same over all devices; not there where the table is whole
    double* losses;    // all rows
  };
  Buffers take(WorkspaceCutter& cutter) const;
  Bytes product_workspace(int threads) const { return product_.workspace(threads); }
  void prepare(int threads) { product_.prepare(threads); }  // as Kernel::prepare(), and so of GradientPass
  const LogitPanels& panels() const { return panels_; }
  float softcap() const { return softcap_; }
  bool has_bias() const { return bias_; }
  // `operands` are those of the op.
  LogitOperands logits_of(Operands operands, std::int64_t first_token) const;

  // Finds states and losses of a chunk, over the tables of all devices where one is split; the logits of its last part
  // stay. Throws BadInput for a token outside the vocabulary.
  void run(std::int64_t chunk, const LogitOperands& operands, const Buffers& buffers, std::byte* product_workspace,
           Workers& workers) const;
  // The inner part of run(): adds the logits of all parts to the states of a chunk.
  void take_table(std::int64_t chunk, const LogitOperands& operands, const Buffers& buffers,
                  std::byte* product_workspace, Workers& workers) const;
  // Makes the logits of one panel, capped.
  void make_logits(std::int64_t chunk, std::int64_t part, const LogitOperands& operands, const Buffers& buffers,
                   std::byte* product_workspace, Workers& workers) const;
  // Sum of all losses, in ascending order of row.
  double total(const Buffers& buffers) const;

 private:
  void merge_states(const Buffers& buffers, std::int64_t count) const;

  std::string_view op_;  // its name
  std::size_t bias_position_;
  bool bias_;
  Bytes row_bytes_;  // of x and of the table
  Bytes element_bytes_;
  float softcap_;
  LogitPanels panels_;
  PanelProduct<MatmulPlan> product_;
  std::int64_t vocabulary_;  // that targets are of
  TensorExchange exchange_;
};

// The pass that turns logits into dlogits = (softmax - 1 at the target) loss_scale, zeros where a row is not predicted,
// and adds their products and sums to gradients. T: float, bf16 or f16.
template <typename T>
class GradientPass {
 public:
  // As SoftmaxPass. `sum_dx`: products are added to dx in f32; else they are dx, in T.
  GradientPass(const OpView& op, const LogitPanels& panels, std::size_t bias, bool sum_dx);

  struct Buffers {
    SoftmaxPass::Buffers softmax;
    T* dlogits;  // one panel; in fp32 they replace the logits
  };
  Buffers take(WorkspaceCutter& cutter) const;
  Bytes product_workspace(int threads) const;
  void prepare(int threads) {
    softmax_.prepare(threads);
    dx_.prepare(threads);
    dtable_.prepare(threads);
  }
  const SoftmaxPass& softmax() const { return softmax_; }

  struct Gradients {
    std::byte* dx;  // of the chunk
    float* dtable;  // (+=); null where the table is frozen
    float* dbias;   // (+=); null without
    float loss_scale;
  };
  // Of one panel, whose logits are in the buffers with the states of its chunk.
  void run(std::int64_t chunk, std::int64_t part, const LogitOperands& operands, const Buffers& buffers,
           const Gradients& gradients, std::byte* product_workspace, Workers& workers) const;

 private:
  std::int64_t hidden_;
  SoftmaxPass softmax_;
  PanelProduct<MatmulPlan> dx_, dtable_;
};

}  // namespace l2l::device::kernels

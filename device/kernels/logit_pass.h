// What the losses share: makes panels of logits in the workspace and turns them into statistics or gradients.
#pragma once

#include <optional>

#include "device/kernels/common/panel_product.h"
#include "device/kernels/common/tensor_exchange.h"
#include "device/kernels/logit_panels.h"
#include "device/kernels/panel_cross_entropy.cuh"
#include "device/kernels/token_product.h"

namespace l2l::device::cuda {

// Operands of a loss, in device memory.
struct LogitOperands {
  const std::byte* x;           // [R, H]
  const std::byte* table;       // [V, H]
  const std::byte* bias;        // [V], or null
  const std::int32_t* targets;  // [R]
  double* statistics;           // [R, 3]
  const LaunchParameters* parameters;
};

struct LogitGradients {
  std::byte* dx;   // of the first row of the chunk
  bool add_to_dx;  // else it is overwritten
  float* dtable;   // [V, H] (+=), or null: neither is trained
  float* dbias;    // [V] (+=), or null
};

// Immutable. Like a Kernel, it may be enqueued repeatedly and captured. The first inputs of `op` are x, table, targets.
class LogitPass {
 public:
  struct Buffers {
    std::byte* products;
    float* logits;                  // one panel; dlogits replace them
    std::byte* sums;                // of the bias's gradient; null where there is none
    RowState *own_states, *states;  // of a chunk's rows, here and on each device; null where the table is whole
  };

  // `dx`: dtype of the product that gives dx; empty: no gradients. `chunk`: the table is a chunk of the vocabulary.
  // Throws BadInput for dtypes that it does not support.
  // `bias`: where the op's bias is, if it has that many inputs.
  LogitPass(const Context& context, const OpView& op, const LogitPanels& panels, std::optional<DType> dx, bool chunk,
            std::size_t bias = 3);

  const LogitPanels& panels() const { return panels_; }
  bool has_bias() const { return bias_; }
  // Whether the table is a share, whose statistics are not those of the rows before merge().
  bool exchanges() const { return !exchange_.alone(); }
  // `operands` are those of the op.
  LogitOperands logits_of(Operands operands, double* statistics, const LaunchParameters* parameters) const;
  // Call it before other cuts: products need a 256-byte aligned address.
  Buffers take(kernels::WorkspaceCutter& cutter) const;

  // Makes the logits of a panel and does `step` to them.
  void run(std::int64_t chunk, std::int64_t part, SoftmaxStep step, const LogitOperands& operands,
           const Buffers& buffers, cudaStream_t stream) const;
  // `step` alone, to logits of a panel that run() left.
  void softmax(std::int64_t chunk, std::int64_t part, SoftmaxStep step, const LogitOperands& operands,
               const Buffers& buffers, cudaStream_t stream) const;
  // Of a share of the table: the statistics of a chunk's rows, of which all parts were added, become those over the
  // tables of all devices.
  void merge(std::int64_t chunk, const LogitOperands& operands, const Buffers& buffers, cudaStream_t stream) const;
  // Multiplies the dlogits of a panel that run() left.
  void multiply(std::int64_t chunk, std::int64_t part, const LogitOperands& operands, const LogitGradients& gradients,
                const Buffers& buffers, cudaStream_t stream) const;

 private:
  Bytes sums_bytes() const;
  LogitPanel panel(std::int64_t chunk, std::int64_t part, const LogitOperands& operands, float* logits) const;

  DType dtype_;
  std::int64_t hidden_;
  std::int64_t vocabulary_;  // that targets are of
  std::int64_t first_token_;
  bool chunk_;
  std::size_t bias_position_;
  bool bias_;
  float softcap_;
  LogitPanels panels_;
  TensorExchange exchange_;
  kernels::PanelProduct<TokenProduct> logits_;
  std::optional<kernels::PanelProduct<TokenProduct>> dx_, dtable_;
};

}  // namespace l2l::device::cuda

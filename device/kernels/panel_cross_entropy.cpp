#include "device/kernels/panel_cross_entropy.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "device/kernels/elementwise.h"
#include "device/kernels/reduce.h"
#include "device/kernels/tokens.h"
#include "device/kernels/vector_math.h"

namespace l2l::device::kernels {
namespace {

constexpr std::int64_t kPanelElements = std::int64_t{4} << 20;
constexpr std::int64_t kMostRows = 2048;
constexpr std::int64_t kFewRows = 512;      // enough for an efficient product
constexpr std::int64_t kPartTokens = 2048;  // wider parts leave the caches

std::int64_t parts(std::int64_t total, std::int64_t most) { return (total + most - 1) / most; }

// logits f32 [rows, tokens] = x [rows, hidden] table^T + bias.
MatmulShape logits_shape(std::int64_t rows, std::int64_t tokens, std::int64_t hidden, DType dtype, bool bias) {
  MatmulShape shape;
  shape.m = rows;
  shape.n = tokens;
  shape.k = hidden;
  shape.input = dtype;
  shape.transpose_b = true;
  shape.bias = bias;
  return shape;
}

// Adds logits [0, count), the first of which is that of token `first`.
void take_logits(RowState& state, const float* logits, std::int64_t count, std::int64_t first, std::int64_t target) {
  const float highest = std::max(state.highest, largest_of(logits, count));
  const float sum = sum_of(count, [=](std::int64_t i) { return fast_exp(logits[i] - highest); });
  state.sum = state.sum * std::exp(static_cast<double>(state.highest) - static_cast<double>(highest)) +
              static_cast<double>(sum);
  state.highest = highest;
  if (target >= first && target < first + count) state.target_logit = logits[target - first];
}

// The derivative of the cap c tanh(l / c) where it gives `capped`, `inverse` being 1 / c (0 without a cap).
inline __attribute__((always_inline)) float cap_slope(float capped, float inverse) {
  const float share = capped * inverse;
  return 1.0f - share * share;
}

// `target` counts from the first of `tokens` logits and may lie outside of them.
template <typename T>
void differentiate_row(const RowState& state, std::int64_t target, float loss_scale, float softcap, const float* logits,
                       T* dlogits, std::int64_t tokens) {
  const float highest = state.highest, factor = static_cast<float>(static_cast<double>(loss_scale) / state.sum);
  const float inverse = softcap > 0 ? 1.0f / softcap : 0.0f;
  if (softcap > 0) {
#pragma omp simd
    for (std::int64_t i = 0; i < tokens; ++i) {
      dlogits[i] = narrow<T>(fast_exp(logits[i] - highest) * factor * cap_slope(logits[i], inverse));
    }
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < tokens; ++i) dlogits[i] = narrow<T>(fast_exp(logits[i] - highest) * factor);
  }
  if (target < 0 || target >= tokens) return;
  const float gradient = fast_exp(state.target_logit - highest) * factor - loss_scale;
  dlogits[target] = narrow<T>(softcap > 0 ? gradient * cap_slope(state.target_logit, inverse) : gradient);
}

// sums[j] += the column j of dlogits [rows, tokens].
template <typename T>
void add_column_sums(const T* dlogits, std::int64_t rows, std::int64_t tokens, float* sums, Workers& workers) {
  constexpr std::int64_t kColumns = 64, kRows = 64;  // partial sums of 64 rows
  const Partition columns{tokens, kColumns};
  workers.parallel_for(columns.count(), [&](std::int64_t block, int) {
    const std::int64_t first = columns.begin(block), count = columns.end(block) - first;
    float total[kColumns] = {};
    for (std::int64_t row = 0; row < rows;) {
      float partial[kColumns] = {};
      for (const std::int64_t end = std::min(rows, row + kRows); row < end; ++row) {
        const T* line = dlogits + row * tokens + first;
#pragma omp simd
        for (std::int64_t j = 0; j < count; ++j) partial[j] += widen(line[j]);
      }
#pragma omp simd
      for (std::int64_t j = 0; j < count; ++j) total[j] += partial[j];
    }
    for (std::int64_t j = 0; j < count; ++j) sums[first + j] += total[j];
  });
}

}  // namespace

LogitPanels::LogitPanels(std::int64_t total_rows, std::int64_t vocabulary) : rows{}, tokens{} {
  const std::int64_t fitting = std::clamp<std::int64_t>(kPanelElements / vocabulary, kFewRows, kMostRows);
  const std::int64_t chunks = parts(total_rows, fitting > kFewRows ? fitting : kMostRows);
  rows = {total_rows, (total_rows + chunks - 1) / chunks};
  tokens = {vocabulary, rows.size * vocabulary <= kPanelElements ? vocabulary : kPartTokens};
}

LogitPanels LogitPanels::narrow(std::int64_t total_rows, std::int64_t vocabulary) {
  LogitPanels panels(total_rows, 1);
  panels.tokens = {vocabulary, std::min(vocabulary, kPartTokens)};
  return panels;
}

PanelProduct::PanelProduct(const LogitPanels& panels, const ShapeOf& shape_of) : panels_(panels) {
  const auto sizes = [](const Partition& partition) {
    std::vector<std::int64_t> result = {partition.size};
    if (partition.total % partition.size != 0) result.push_back(partition.total % partition.size);
    return result;
  };
  for (const std::int64_t rows : sizes(panels.rows)) {
    for (const std::int64_t tokens : sizes(panels.tokens)) plans_.emplace_back(shape_of(rows, tokens));
  }
}

Bytes PanelProduct::workspace(int threads) const {
  Bytes bytes = 0;
  for (const MatmulPlan& plan : plans_) bytes = std::max(bytes, plan.workspace(threads));
  return bytes;
}

void PanelProduct::run(std::int64_t chunk, std::int64_t part, const MatmulOperands& operands, std::byte* workspace,
                       Workers& workers) const {
  const auto is_rest = [](const Partition& partition, std::int64_t block) {
    return partition.end(block) - partition.begin(block) < partition.size;
  };
  const std::size_t widths = panels_.tokens.total % panels_.tokens.size == 0 ? 1 : 2;
  const std::size_t index = is_rest(panels_.rows, chunk) * widths + is_rest(panels_.tokens, part);
  plans_[index].run(operands, workspace, workers);
}

MatmulShape dx_sum_shape(std::int64_t rows, std::int64_t tokens, std::int64_t hidden, DType dtype) {
  MatmulShape shape;
  shape.m = rows;
  shape.n = hidden;
  shape.k = tokens;
  shape.input = dtype;
  shape.accumulate = true;
  return shape;
}

MatmulShape dtable_shape(std::int64_t rows, std::int64_t tokens, std::int64_t hidden, DType dtype) {
  MatmulShape shape = dx_sum_shape(tokens, rows, hidden, dtype);
  shape.transpose_a = true;
  return shape;
}

RowState RowState::empty() { return {-std::numeric_limits<float>::infinity(), 0, 0}; }

RowState load_state(const double* statistics) {
  if (statistics[1] == 0) return RowState::empty();
  return {static_cast<float>(statistics[0]), static_cast<float>(statistics[2]), statistics[1]};
}

void store_state(const RowState& state, double* statistics) {
  statistics[0] = static_cast<double>(state.highest);
  statistics[1] = state.sum;
  statistics[2] = static_cast<double>(state.target_logit);
}

template <typename T>
void differentiate_panel(const PanelGradient<T>& panel, Workers& workers) {
  for_rows(panel.rows, panel.tokens, workers, [&](std::int64_t row) {
    T* dlogits = panel.dlogits + row * panel.tokens;
    if (panel.targets[row] < 0) {
      std::fill_n(dlogits, panel.tokens, T{});
    } else {
      differentiate_row(panel.states[row], panel.targets[row] - panel.first_token, panel.loss_scale, panel.softcap,
                        panel.logits + row * panel.tokens, dlogits, panel.tokens);
    }
  });
  if (panel.dbias) add_column_sums(panel.dlogits, panel.rows, panel.tokens, panel.dbias, workers);
}

template void differentiate_panel(const PanelGradient<float>&, Workers&);
template void differentiate_panel(const PanelGradient<bf16>&, Workers&);
template void differentiate_panel(const PanelGradient<f16>&, Workers&);

double RowState::loss() const {
  return static_cast<double>(highest) + std::log(sum) - static_cast<double>(target_logit);
}

SoftmaxPass::SoftmaxPass(std::string_view op, LogitPanels panels, std::int64_t hidden, DType dtype, bool bias,
                         float softcap)
    : op_(op),
      row_bytes_(static_cast<Bytes>(hidden) * size_of(dtype)),
      element_bytes_(size_of(dtype)),
      softcap_(softcap),
      panels_(panels),
      product_(panels_, [=](std::int64_t m, std::int64_t n) { return logits_shape(m, n, hidden, dtype, bias); }) {}

SoftmaxPass::Buffers SoftmaxPass::take(WorkspaceCutter& cutter) const {
  Buffers buffers{};
  buffers.logits = cutter.take<float>(panels_.elements());
  buffers.states = cutter.take<RowState>(panels_.rows.size);
  buffers.losses = cutter.take<double>(panels_.rows.total);
  return buffers;
}

void SoftmaxPass::make_logits(std::int64_t chunk, std::int64_t part, const LogitOperands& operands,
                              const Buffers& buffers, std::byte* product_workspace, Workers& workers) const {
  const auto token = static_cast<Bytes>(panels_.tokens.begin(part));
  const std::byte* rows = operands.x + static_cast<Bytes>(panels_.rows.begin(chunk)) * row_bytes_;
  const std::byte* weights = operands.table + token * row_bytes_;
  const std::byte* bias = operands.bias ? operands.bias + token * element_bytes_ : nullptr;
  product_.run(chunk, part, {rows, weights, bias, reinterpret_cast<std::byte*>(buffers.logits)}, product_workspace,
               workers);
  if (softcap_ == 0) return;
  const std::int64_t tokens = panels_.tokens.end(part) - panels_.tokens.begin(part);
  for_rows(panels_.rows.end(chunk) - panels_.rows.begin(chunk), tokens, workers, [&](std::int64_t row) {
    float* const logits = buffers.logits + row * tokens;
    const float inverse = 1.0f / softcap_;
#pragma omp simd
    for (std::int64_t i = 0; i < tokens; ++i) logits[i] = softcap_ * fast_tanh(logits[i] * inverse);
  });
}

void SoftmaxPass::run(std::int64_t chunk, const LogitOperands& operands, const std::int32_t* targets,
                      const Buffers& buffers, std::byte* product_workspace, Workers& workers) const {
  const std::int64_t first = panels_.rows.begin(chunk), count = panels_.rows.end(chunk) - first;
  for (std::int64_t i = 0; i < count; ++i) {
    if (targets[first + i] >= panels_.tokens.total) {
      throw_bad_token(op_, targets[first + i], first + i, panels_.tokens.total);
    }
    buffers.states[i] = RowState::empty();
  }
  take_table(chunk, operands, targets, 0, buffers, product_workspace, workers);
  for (std::int64_t i = 0; i < count; ++i) {
    buffers.losses[first + i] = targets[first + i] < 0 ? 0 : buffers.states[i].loss();
  }
}

void SoftmaxPass::take_table(std::int64_t chunk, const LogitOperands& operands, const std::int32_t* targets,
                             std::int64_t first_token, const Buffers& buffers, std::byte* product_workspace,
                             Workers& workers) const {
  for (std::int64_t part = 0; part < panels_.tokens.count(); ++part) {
    make_logits(chunk, part, operands, buffers, product_workspace, workers);
    take_part(chunk, part, targets, first_token, buffers, workers);
  }
}

void SoftmaxPass::take_part(std::int64_t chunk, std::int64_t part, const std::int32_t* targets,
                            std::int64_t first_token, const Buffers& buffers, Workers& workers) const {
  const std::int64_t first = panels_.rows.begin(chunk), token = panels_.tokens.begin(part);
  const std::int64_t tokens = panels_.tokens.end(part) - token;
  for_rows(panels_.rows.end(chunk) - first, tokens, workers, [&](std::int64_t i) {
    const std::int32_t target = targets[first + i];
    if (target < 0) return;
    take_logits(buffers.states[i], buffers.logits + i * tokens, tokens, first_token + token, target);
  });
}

double SoftmaxPass::total(const Buffers& buffers) const {
  return std::accumulate(buffers.losses, buffers.losses + panels_.rows.total, 0.0);
}

}  // namespace l2l::device::kernels

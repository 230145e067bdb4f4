#include "device/kernels/panel_cross_entropy.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "device/kernels/elementwise.h"
#include "device/kernels/reduce.h"
#include "device/kernels/row_sums.h"
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
MatmulShape logits_shape(std::int64_t rows, std::int64_t tokens, const compiler::Value& x, bool bias) {
  return {.m = rows, .n = tokens, .k = x.shape[1], .input = x.dtype, .transpose_b = true, .bias = bias};
}

// Of dlogits [rows, tokens]: dx [rows, hidden] (+)= dlogits table, and dtable f32 [tokens, hidden] += dlogits^T x.
MatmulShape dx_shape(std::int64_t rows, std::int64_t tokens, const compiler::Value& x, bool sum) {
  return {.m = rows,
          .n = x.shape[1],
          .k = tokens,
          .input = x.dtype,
          .output = sum ? DType::f32 : x.dtype,
          .accumulate = sum};
}
MatmulShape dtable_shape(std::int64_t rows, std::int64_t tokens, const compiler::Value& x) {
  return {.m = tokens, .n = x.shape[1], .k = rows, .input = x.dtype, .transpose_a = true, .accumulate = true};
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

}  // namespace

LogitPanels::LogitPanels(std::int64_t total_rows, std::int64_t vocabulary) : rows{}, tokens{} {
  const std::int64_t fitting = std::clamp<std::int64_t>(kPanelElements / vocabulary, kFewRows, kMostRows);
  const std::int64_t chunks = parts(total_rows, fitting > kFewRows ? fitting : kMostRows);
  rows = {total_rows, (total_rows + chunks - 1) / chunks};
  set_tokens(vocabulary);
}

void LogitPanels::set_tokens(std::int64_t vocabulary) {
  tokens = {vocabulary, rows.size * vocabulary <= kPanelElements ? vocabulary : kPartTokens};
}

LogitPanels LogitPanels::of_share(const OpView& op) {
  const std::int64_t own = op.input(1).shape[0], count = op.attributes.shard.count;
  LogitPanels panels(op.input(0).shape[0],
                     count > 1 ? compiler::largest_token_share(op.attributes.vocabulary, count) : own);
  panels.set_tokens(own);
  return panels;
}

LogitPanels LogitPanels::narrow(std::int64_t total_rows, std::int64_t vocabulary) {
  LogitPanels panels(total_rows, 1);
  panels.tokens = {vocabulary, std::min(vocabulary, kPartTokens)};
  return panels;
}

RowState RowState::empty() { return {-std::numeric_limits<float>::infinity(), 0, 0}; }

void RowState::merge(const RowState& other) {
  if (other.sum == 0) return;
  const float together = std::max(highest, other.highest);
  const auto scaled = [=](const RowState& state) {
    return state.sum == 0 ? 0
                          : state.sum * std::exp(static_cast<double>(state.highest) - static_cast<double>(together));
  };
  sum = scaled(*this) + scaled(other);
  highest = together;
  target_logit += other.target_logit;  // 0 of all but one
}

RowState load_state(const double* statistics) {
  if (statistics[1] == 0) return RowState::empty();
  return {static_cast<float>(statistics[0]), static_cast<float>(statistics[2]), statistics[1]};
}

void store_state(const RowState& state, double* statistics) {
  statistics[0] = static_cast<double>(state.highest);
  statistics[1] = state.sum;
  statistics[2] = static_cast<double>(state.target_logit);
}

double RowState::loss() const {
  return static_cast<double>(highest) + std::log(sum) - static_cast<double>(target_logit);
}

SoftmaxPass::SoftmaxPass(const OpView& op, const LogitPanels& panels, std::size_t bias)
    : op_(compiler::name_of(op.kind)),
      bias_position_(bias),
      bias_(op.inputs.size() > bias),
      row_bytes_(static_cast<Bytes>(op.input(0).shape[1]) * size_of(op.input(0).dtype)),
      element_bytes_(size_of(op.input(0).dtype)),
      softcap_(op.attributes.softcap),
      panels_((require_compute_type(op, op.input(0).dtype), panels)),
      product_(panels.rows, panels.tokens,
               [&](std::int64_t m, std::int64_t n) { return MatmulPlan(logits_shape(m, n, op.input(0), bias_)); }),
      vocabulary_(op.attributes.shard.count > 1 ? op.attributes.vocabulary : panels.tokens.total),
      exchange_(op) {
  op.require_dtype(op.input(0).dtype, {1});
  op.require_dtype(DType::i32, {2});
  if (bias_) op.require_dtype(op.input(0).dtype, {bias});
}

LogitOperands SoftmaxPass::logits_of(Operands operands, std::int64_t first_token) const {
  return {operands[0], operands[1], bias_ ? operands[bias_position_] : nullptr, as<std::int32_t>(operands[2]),
          first_token};
}

SoftmaxPass::Buffers SoftmaxPass::take(WorkspaceCutter& cutter) const {
  Buffers buffers{};
  buffers.logits = cutter.take<float>(panels_.elements());
  buffers.states = cutter.take<RowState>(panels_.rows.size);
  if (!exchange_.alone()) buffers.merged = cutter.take<RowState>(panels_.rows.size);
  buffers.losses = cutter.take<double>(panels_.rows.total);
  return buffers;
}

void SoftmaxPass::make_logits(std::int64_t chunk, std::int64_t part, const LogitOperands& operands,
                              const Buffers& buffers, std::byte* product_workspace, Workers& workers) const {
  const auto token = static_cast<Bytes>(panels_.tokens.begin(part));
  const std::byte* rows = operands.x + static_cast<Bytes>(panels_.rows.begin(chunk)) * row_bytes_;
  const std::byte* weights = operands.table + token * row_bytes_;
  const std::byte* bias = operands.bias ? operands.bias + token * element_bytes_ : nullptr;
  product_.at(chunk, part)
      .run({rows, weights, bias, reinterpret_cast<std::byte*>(buffers.logits)}, product_workspace, workers);
  if (softcap_ == 0) return;
  const std::int64_t tokens = panels_.tokens.end(part) - panels_.tokens.begin(part);
  for_rows(panels_.rows.end(chunk) - panels_.rows.begin(chunk), tokens, workers, [&](std::int64_t row) {
    float* const logits = buffers.logits + row * tokens;
    const float inverse = 1.0f / softcap_;
#pragma omp simd
    for (std::int64_t i = 0; i < tokens; ++i) logits[i] = softcap_ * fast_tanh(logits[i] * inverse);
  });
}

void SoftmaxPass::run(std::int64_t chunk, const LogitOperands& operands, const Buffers& buffers,
                      std::byte* product_workspace, Workers& workers) const {
  const std::int32_t* targets = operands.targets;
  const std::int64_t first = panels_.rows.begin(chunk), count = panels_.rows.end(chunk) - first;
  for (std::int64_t i = 0; i < count; ++i) {
    if (targets[first + i] >= vocabulary_) throw_bad_token(op_, targets[first + i], first + i, vocabulary_);
    buffers.states[i] = RowState::empty();
  }
  take_table(chunk, operands, buffers, product_workspace, workers);
  merge_states(buffers, count);
  for (std::int64_t i = 0; i < count; ++i) {
    buffers.losses[first + i] = targets[first + i] < 0 ? 0 : buffers.states[i].loss();
  }
}

// Of all devices, in their order; every one of them finds the same.
void SoftmaxPass::merge_states(const Buffers& buffers, std::int64_t count) const {
  if (exchange_.alone()) return;
  exchange_.run(reinterpret_cast<const std::byte*>(buffers.states), [&](std::span<const std::byte* const> given) {
    for (std::int64_t i = 0; i < count; ++i) {
      RowState merged = RowState::empty();
      for (const std::byte* const states : given) merged.merge(reinterpret_cast<const RowState*>(states)[i]);
      buffers.merged[i] = merged;
    }
  });
  std::copy_n(buffers.merged, count, buffers.states);
}

void SoftmaxPass::take_table(std::int64_t chunk, const LogitOperands& operands, const Buffers& buffers,
                             std::byte* product_workspace, Workers& workers) const {
  const std::int64_t first = panels_.rows.begin(chunk), rows = panels_.rows.end(chunk) - first;
  for (std::int64_t part = 0; part < panels_.tokens.count(); ++part) {
    make_logits(chunk, part, operands, buffers, product_workspace, workers);
    const std::int64_t token = panels_.tokens.begin(part), tokens = panels_.tokens.end(part) - token;
    for_rows(rows, tokens, workers, [&](std::int64_t i) {
      const std::int32_t target = operands.targets[first + i];
      if (target < 0) return;
      take_logits(buffers.states[i], buffers.logits + i * tokens, tokens, operands.first_token + token, target);
    });
  }
}

double SoftmaxPass::total(const Buffers& buffers) const {
  return std::accumulate(buffers.losses, buffers.losses + panels_.rows.total, 0.0);
}

template <typename T>
GradientPass<T>::GradientPass(const OpView& op, const LogitPanels& panels, std::size_t bias, bool sum_dx)
    : hidden_(op.input(0).shape[1]),
      softmax_(op, panels, bias),
      dx_(panels.rows, panels.tokens,
          [&](std::int64_t m, std::int64_t n) { return MatmulPlan(dx_shape(m, n, op.input(0), sum_dx)); }),
      dtable_(panels.rows, panels.tokens,
              [&](std::int64_t m, std::int64_t n) { return MatmulPlan(dtable_shape(m, n, op.input(0))); }) {}

template <typename T>
typename GradientPass<T>::Buffers GradientPass<T>::take(WorkspaceCutter& cutter) const {
  Buffers buffers{softmax_.take(cutter), nullptr};
  if constexpr (std::is_same_v<T, float>) {
    buffers.dlogits = buffers.softmax.logits;
  } else {
    buffers.dlogits = cutter.take<T>(softmax_.panels().elements());
  }
  return buffers;
}

template <typename T>
Bytes GradientPass<T>::product_workspace(int threads) const {
  return std::max({softmax_.product_workspace(threads), dx_.workspace(threads), dtable_.workspace(threads)});
}

template <typename T>
void GradientPass<T>::run(std::int64_t chunk, std::int64_t part, const LogitOperands& operands, const Buffers& buffers,
                          const Gradients& gradients, std::byte* product_workspace, Workers& workers) const {
  const LogitPanels& panels = softmax_.panels();
  const std::int64_t first_row = panels.rows.begin(chunk), rows = panels.rows.end(chunk) - first_row;
  const std::int64_t first_token = panels.tokens.begin(part), tokens = panels.tokens.end(part) - first_token;
  for_rows(rows, tokens, workers, [&](std::int64_t row) {
    T* line = buffers.dlogits + row * tokens;
    const std::int32_t target = operands.targets[first_row + row];
    if (target < 0) {
      std::fill_n(line, tokens, T{});
    } else {
      differentiate_row(buffers.softmax.states[row], target - operands.first_token - first_token, gradients.loss_scale,
                        softmax_.softcap(), buffers.softmax.logits + row * tokens, line, tokens);
    }
  });
  if (gradients.dbias) add_column_sums(buffers.dlogits, rows, tokens, gradients.dbias + first_token, workers);
  const auto* dlogits = reinterpret_cast<const std::byte*>(buffers.dlogits);
  const std::byte* x = operands.x + static_cast<Bytes>(first_row * hidden_) * sizeof(T);
  const std::byte* table = operands.table + static_cast<Bytes>(first_token * hidden_) * sizeof(T);
  dx_.at(chunk, part).run({dlogits, table, nullptr, gradients.dx}, product_workspace, workers);
  if (gradients.dtable == nullptr) return;
  auto* dtable = reinterpret_cast<std::byte*>(gradients.dtable + first_token * hidden_);
  dtable_.at(chunk, part).run({dlogits, x, nullptr, dtable}, product_workspace, workers);
}

template class GradientPass<float>;
template class GradientPass<bf16>;
template class GradientPass<f16>;

}  // namespace l2l::device::kernels

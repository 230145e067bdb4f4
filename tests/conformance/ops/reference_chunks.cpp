// References of the ops that work on a chunk of a table, whose first row is that of LaunchParameters::first_token.
#include <algorithm>
#include <cmath>

#include "tests/conformance/ops/reference.h"

namespace l2l::test {
namespace {

constexpr std::size_t kHighest = 0, kSum = 1, kTarget = 2, kNumbers = 3;

struct Chunk {
  std::size_t rows, hidden, tokens;
  const Tensor* bias = nullptr;  // of logits
  explicit Chunk(const Shape& x, const Shape& table)
      : rows(static_cast<std::size_t>(x[0])),
        hidden(static_cast<std::size_t>(table[1])),
        tokens(static_cast<std::size_t>(table[0])) {}

  double logit(const ReferenceCall& call, std::size_t row, std::size_t token) const {
    double sum = bias != nullptr ? (*bias)[token] : 0;
    for (std::size_t d = 0; d < hidden; ++d) sum += call[0][row * hidden + d] * call[1][token * hidden + d];
    return capped_logit(call, sum);
  }
};

// Row of the chunk, or of the device's share, or `tokens` and more when it has no such token.
std::size_t row_of(const ReferenceCall& call, double token) {
  const double place = token - static_cast<double>(call.parameters.first_token + call.op.attributes.first);
  return place < 0 ? std::size_t{1} << 40 : static_cast<std::size_t>(place);
}

}  // namespace

void reference_embedding_rows(const ReferenceCall& call) {
  const Chunk chunk(call.shape(0), call.shape(1));
  for (std::size_t r = 0; r < chunk.rows; ++r) {
    const std::size_t row = row_of(call, call[0][r]);
    if (row >= chunk.tokens) continue;
    const double factor = round_to(call.dtype(1), static_cast<double>(call.op.attributes.factor));
    for (std::size_t d = 0; d < chunk.hidden; ++d) {
      call[2][r * chunk.hidden + d] = factor * call[1][row * chunk.hidden + d];
    }
  }
}

void reference_embedding_rows_backward(const ReferenceCall& call) {
  const Chunk chunk(call.shape(0), call.shape(2));
  for (std::size_t r = 0; r < chunk.rows; ++r) {
    const std::size_t row = row_of(call, call[0][r]);
    if (row >= chunk.tokens) continue;
    const double factor = round_to(call.dtype(1), static_cast<double>(call.op.attributes.factor));
    for (std::size_t d = 0; d < chunk.hidden; ++d) {
      call[2][row * chunk.hidden + d] += factor * call[1][r * chunk.hidden + d];
    }
  }
}

void reference_add_positions(const ReferenceCall& call) {
  const auto hidden = static_cast<std::size_t>(call.shape(0)[1]);
  for (std::size_t i = 0; i < call[0].size(); ++i) {
    call.output(0)[i] = call[0][i] + call[1][place_of(call, call.of_rows(2), i / hidden) * hidden + i % hidden];
  }
}

void reference_positions_backward(const ReferenceCall& call) {
  const auto hidden = static_cast<std::size_t>(call.shape(0)[1]);
  for (std::size_t i = 0; i < call[0].size(); ++i) {
    call.output(0)[place_of(call, call.of_rows(1), i / hidden) * hidden + i % hidden] += call[0][i];
  }
}

// Operands: x, table, targets, (bias), statistics.
void reference_softmax_statistics(const ReferenceCall& call) {
  Chunk chunk(call.shape(0), call.shape(1));
  if (call.op.inputs.size() > 3) chunk.bias = &call[3];
  Tensor& all = call[call.op.inputs.size()];
  for (std::size_t r = 0; r < chunk.rows; ++r) {
    if (call[2][r] < 0) continue;
    double* statistics = &all[r * kNumbers];
    Tensor logits;
    for (std::size_t token = 0; token < chunk.tokens; ++token) logits.push_back(chunk.logit(call, r, token));
    double highest = *std::max_element(logits.begin(), logits.end());
    const bool first = statistics[kSum] == 0;
    if (!first) highest = std::max(highest, statistics[kHighest]);
    double sum = first ? 0 : statistics[kSum] * std::exp(statistics[kHighest] - highest);
    for (const double logit : logits) sum += std::exp(logit - highest);
    const std::size_t target = row_of(call, call[2][r]);
    statistics[kHighest] = highest;
    statistics[kSum] = sum;
    if (target < chunk.tokens) statistics[kTarget] = logits[target];
  }
}

// Operands: statistics, targets, loss.
void reference_cross_entropy(const ReferenceCall& call) {
  call[2][0] = 0;
  for (std::size_t r = 0; r < call[1].size(); ++r) {
    const double* statistics = &call[0][r * kNumbers];
    if (call[1][r] >= 0) call[2][0] += statistics[kHighest] + std::log(statistics[kSum]) - statistics[kTarget];
  }
}

// Operands: x, table, targets, statistics, (bias), dx, dtable, (dbias).
void reference_chunk_cross_entropy_backward(const ReferenceCall& call) {
  Chunk chunk(call.shape(0), call.shape(1));
  if (call.op.inputs.size() > 4) chunk.bias = &call[4];
  const std::size_t outputs = call.op.inputs.size();
  Tensor &dx = call[outputs], &dtable = call[outputs + 1];
  for (std::size_t r = 0; r < chunk.rows; ++r) {
    if (call[2][r] < 0) continue;
    const double* statistics = &call[3][r * kNumbers];
    const std::size_t target = row_of(call, call[2][r]);
    for (std::size_t token = 0; token < chunk.tokens; ++token) {
      const double logit = chunk.logit(call, r, token);
      const double probability = std::exp(logit - statistics[kHighest]) / statistics[kSum];
      const double exact = (probability - (token == target)) * static_cast<double>(call.parameters.loss_scale) *
                           logit_slope(call, logit);
      const double gradient = call.round ? round_to(call.dtype(0), exact) : exact;
      if (chunk.bias != nullptr) call[outputs + 2][token] += gradient;
      for (std::size_t d = 0; d < chunk.hidden; ++d) {
        dx[r * chunk.hidden + d] += gradient * call[1][token * chunk.hidden + d];
        dtable[token * chunk.hidden + d] += gradient * call[0][r * chunk.hidden + d];
      }
    }
  }
}

}  // namespace l2l::test

#include <cmath>

#include "tests/conformance/ops/reference.h"

namespace l2l::test {
namespace {

// One head of one sequence.
struct Head {
  const ReferenceCall& call;
  std::size_t sequence, head, length, heads, hidden, dim;

  std::size_t qkv(std::size_t part, std::size_t row, std::size_t d) const {
    return (sequence * length + row) * 3 * hidden + part * hidden + head * dim + d;
  }
  std::size_t y(std::size_t row, std::size_t d) const { return (sequence * length + row) * hidden + head * dim + d; }
  std::size_t logsumexp(std::size_t row) const { return (sequence * length + row) * heads + head; }
  double mask(std::size_t i, std::size_t j) const {
    return dropout_factor(call, static_cast<std::int64_t>(((sequence * heads + head) * length + i) * length + j));
  }
  double score(const Tensor& values, std::size_t i, std::size_t j) const {
    double sum = 0;
    for (std::size_t d = 0; d < dim; ++d) sum += values[qkv(0, i, d)] * values[qkv(1, j, d)];
    return sum / std::sqrt(static_cast<double>(dim));
  }
};

template <typename F>
void for_each_head(const ReferenceCall& call, const Shape& qkv, F function) {
  const auto& attributes = call.op.attributes;
  const auto length = static_cast<std::size_t>(attributes.sequence), heads = static_cast<std::size_t>(attributes.heads);
  const auto rows = static_cast<std::size_t>(qkv[0]), hidden = static_cast<std::size_t>(qkv[1]) / 3;
  for (std::size_t sequence = 0; sequence < rows / length; ++sequence) {
    for (std::size_t head = 0; head < heads; ++head) {
      function(Head{call, sequence, head, length, heads, hidden, hidden / heads});
    }
  }
}

}  // namespace

void reference_attention(const ReferenceCall& call) {
  for_each_head(call, call.shape(0), [&](const Head& head) {
    for (std::size_t i = 0; i < head.length; ++i) {
      double highest = -INFINITY, sum = 0;
      for (std::size_t j = 0; j <= i; ++j) highest = std::max(highest, head.score(call[0], i, j));
      for (std::size_t j = 0; j <= i; ++j) sum += std::exp(head.score(call[0], i, j) - highest);
      call[2][head.logsumexp(i)] = highest + std::log(sum);
      for (std::size_t d = 0; d < head.dim; ++d) call[1][head.y(i, d)] = 0;
      for (std::size_t j = 0; j <= i; ++j) {
        const double weight = std::exp(head.score(call[0], i, j) - highest) / sum * head.mask(i, j);
        for (std::size_t d = 0; d < head.dim; ++d) call[1][head.y(i, d)] += weight * call[0][head.qkv(2, j, d)];
      }
    }
  });
}

// Operands: dy, qkv, y, logsumexp, dqkv.
void reference_attention_backward(const ReferenceCall& call) {
  const Tensor& qkv = call[1];
  Tensor& dqkv = call[4];
  std::fill(dqkv.begin(), dqkv.end(), 0.0);
  for_each_head(call, call.shape(1), [&](const Head& head) {
    const double scale = 1 / std::sqrt(static_cast<double>(head.dim));
    for (std::size_t i = 0; i < head.length; ++i) {
      double product = 0;
      for (std::size_t d = 0; d < head.dim; ++d) product += call[0][head.y(i, d)] * call[2][head.y(i, d)];
      for (std::size_t j = 0; j <= i; ++j) {
        const double probability = std::exp(head.score(qkv, i, j) - call[3][head.logsumexp(i)]);
        double dprobability = 0;
        for (std::size_t d = 0; d < head.dim; ++d) dprobability += call[0][head.y(i, d)] * qkv[head.qkv(2, j, d)];
        const double mask = head.mask(i, j), dscore = probability * (dprobability * mask - product) * scale;
        for (std::size_t d = 0; d < head.dim; ++d) {
          dqkv[head.qkv(0, i, d)] += dscore * qkv[head.qkv(1, j, d)];
          dqkv[head.qkv(1, j, d)] += dscore * qkv[head.qkv(0, i, d)];
          dqkv[head.qkv(2, j, d)] += probability * mask * call[0][head.y(i, d)];
        }
      }
    }
  });
}

}  // namespace l2l::test

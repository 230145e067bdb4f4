#include <cmath>
#include <complex>

#include "tests/conformance/ops/reference.h"

namespace l2l::test {
namespace {

// One head of one sequence.
struct Head {
  const ReferenceCall& call;
  std::size_t sequence, head, length, heads, kv_heads, dim;

  // Element d of its query (part 0), key (1) or value (2): heads, kv_heads and kv_heads of them are side by side.
  std::size_t qkv(std::size_t part, std::size_t row, std::size_t d) const {
    const std::size_t shared = head * kv_heads / heads;
    const std::size_t places[] = {head, heads + shared, heads + kv_heads + shared};
    return ((sequence * length + row) * (heads + 2 * kv_heads) + places[part]) * dim + d;
  }
  std::size_t y(std::size_t row, std::size_t d) const { return ((sequence * length + row) * heads + head) * dim + d; }
  // Rows that row i sees.
  std::size_t seen(std::size_t i) const { return call.op.attributes.causal ? i + 1 : length; }
  std::size_t logsumexp(std::size_t row) const { return (sequence * length + row) * heads + head; }
  std::size_t probability(std::size_t i, std::size_t j) const {
    return ((sequence * heads + head) * length + i) * length + j;
  }
  double mask(std::size_t i, std::size_t j) const {
    return dropout_factor(call, static_cast<std::int64_t>(probability(i, j)));
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
  const auto kv_heads = attributes.kv_heads > 0 ? static_cast<std::size_t>(attributes.kv_heads) : heads;
  const auto rows = static_cast<std::size_t>(qkv[0]), columns = static_cast<std::size_t>(qkv[1]);
  for (std::size_t sequence = 0; sequence < rows / length; ++sequence) {
    for (std::size_t head = 0; head < heads; ++head) {
      function(Head{call, sequence, head, length, heads, kv_heads, columns / (heads + 2 * kv_heads)});
    }
  }
}

}  // namespace

void reference_attention(const ReferenceCall& call) {
  for_each_head(call, call.shape(0), [&](const Head& head) {
    for (std::size_t i = 0; i < head.length; ++i) {
      double highest = -INFINITY, sum = 0;
      for (std::size_t j = 0; j < head.seen(i); ++j) highest = std::max(highest, head.score(call[0], i, j));
      for (std::size_t j = 0; j < head.seen(i); ++j) sum += std::exp(head.score(call[0], i, j) - highest);
      call[2][head.logsumexp(i)] = highest + std::log(sum);
      for (std::size_t d = 0; d < head.dim; ++d) call[1][head.y(i, d)] = 0;
      for (std::size_t j = 0; j < head.seen(i); ++j) {
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
      for (std::size_t j = 0; j < head.seen(i); ++j) {
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

// Operands: qkv, probabilities.
void reference_attention_probabilities(const ReferenceCall& call) {
  std::fill(call[1].begin(), call[1].end(), 0.0);
  for_each_head(call, call.shape(0), [&](const Head& head) {
    for (std::size_t i = 0; i < head.length; ++i) {
      double highest = -INFINITY, sum = 0;
      for (std::size_t j = 0; j < head.seen(i); ++j) highest = std::max(highest, head.score(call[0], i, j));
      for (std::size_t j = 0; j < head.seen(i); ++j) sum += std::exp(head.score(call[0], i, j) - highest);
      for (std::size_t j = 0; j < head.seen(i); ++j) {
        call[1][head.probability(i, j)] = std::exp(head.score(call[0], i, j) - highest) / sum;
      }
    }
  });
}

// Operands: dprobabilities, probabilities, qkv, (other), dqkv. By the Jacobian of softmax, element by element.
void reference_attention_probabilities_backward(const ReferenceCall& call) {
  const Tensor &dp = call[0], &p = call[1], &qkv = call[2];
  Tensor& dqkv = call[call.op.inputs.size()];
  if (call.op.inputs.size() > 3) {
    dqkv = call[3];
  } else {
    std::fill(dqkv.begin(), dqkv.end(), 0.0);
  }
  for_each_head(call, call.shape(2), [&](const Head& head) {
    for (std::size_t i = 0; i < head.length; ++i) {
      for (std::size_t j = 0; j < head.seen(i); ++j) {
        double dscore = 0;
        for (std::size_t k = 0; k < head.seen(i); ++k) {
          const double jacobian = p[head.probability(i, k)] * ((j == k ? 1.0 : 0.0) - p[head.probability(i, j)]);
          dscore += jacobian * dp[head.probability(i, k)];
        }
        dscore /= std::sqrt(static_cast<double>(head.dim));
        for (std::size_t d = 0; d < head.dim; ++d) {
          dqkv[head.qkv(0, i, d)] += dscore * qkv[head.qkv(1, j, d)];
          dqkv[head.qkv(1, j, d)] += dscore * qkv[head.qkv(0, i, d)];
        }
      }
    }
  });
}

// Operands: probabilities, qkv, y.
void reference_attention_mix(const ReferenceCall& call) {
  std::fill(call[2].begin(), call[2].end(), 0.0);
  for_each_head(call, call.shape(1), [&](const Head& head) {
    for (std::size_t i = 0; i < head.length; ++i) {
      for (std::size_t j = 0; j < head.seen(i); ++j) {
        const double weight = call[0][head.probability(i, j)];
        for (std::size_t d = 0; d < head.dim; ++d) call[2][head.y(i, d)] += weight * call[1][head.qkv(2, j, d)];
      }
    }
  });
}

// Operands: dy, probabilities, qkv, dprobabilities, dqkv.
void reference_attention_mix_backward(const ReferenceCall& call) {
  for (const std::size_t output : {3, 4}) std::fill(call[output].begin(), call[output].end(), 0.0);
  for_each_head(call, call.shape(2), [&](const Head& head) {
    for (std::size_t i = 0; i < head.length; ++i) {
      for (std::size_t j = 0; j < head.seen(i); ++j) {
        for (std::size_t d = 0; d < head.dim; ++d) {
          const double dy = call[0][head.y(i, d)];
          call[3][head.probability(i, j)] += dy * call[2][head.qkv(2, j, d)];
          call[4][head.qkv(2, j, d)] += dy * call[1][head.probability(i, j)];
        }
      }
    }
  });
}

// The heads of queries and of keys as complex numbers (element j, element j + dim / 2), turned by their place.
void reference_rotary(const ReferenceCall& call) {
  const double base = static_cast<double>(call.op.attributes.rotary_base);
  call[1] = call[0];
  for_each_head(call, call.shape(0), [&](const Head& head) {
    for (std::size_t place = 0; place < head.length; ++place) {
      for (std::size_t j = 0; j < head.dim / 2; ++j) {
        const double exponent = -2.0 * static_cast<double>(j) / static_cast<double>(head.dim);
        const double angle = static_cast<double>(place) * std::pow(base, exponent);
        const std::complex<double> turn = std::polar(1.0, call.op.attributes.inverse ? -angle : angle);
        for (const std::size_t part : {0, 1}) {
          const std::size_t at = head.qkv(part, place, j), other = head.qkv(part, place, j + head.dim / 2);
          const std::complex<double> turned = std::complex<double>(call[0][at], call[0][other]) * turn;
          call[1][at] = turned.real();
          call[1][other] = turned.imag();
        }
      }
    }
  });
}

}  // namespace l2l::test

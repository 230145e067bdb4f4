#include <algorithm>
#include <cmath>
#include <complex>

#include "tests/conformance/ops/reference.h"

namespace l2l::test {
namespace {

// One head of one sequence.
struct Head {
  const ReferenceCall& call;
  std::size_t sequence, head, length, heads, kv_heads, dim;
  const Tensor* documents = nullptr;  // [2][rows]

  // Element d of its query (part 0), key (1) or value (2): heads, kv_heads and kv_heads of them are side by side.
  std::size_t qkv(std::size_t part, std::size_t row, std::size_t d) const {
    const std::size_t shared = head * kv_heads / heads;
    const std::size_t places[] = {head, heads + shared, heads + kv_heads + shared};
    return ((sequence * length + row) * (heads + 2 * kv_heads) + places[part]) * dim + d;
  }
  std::size_t y(std::size_t row, std::size_t d) const { return ((sequence * length + row) * heads + head) * dim + d; }
  // Row i sees rows [first(i), seen(i)).
  std::size_t seen(std::size_t i) const { return call.op.attributes.causal ? i + 1 : document(i, 1, length); }
  std::size_t first(std::size_t i) const {
    const auto window = static_cast<std::size_t>(call.op.attributes.window);
    return std::max(window > 0 && i + 1 > window ? i + 1 - window : 0, document(i, 0, 0));
  }
  std::size_t document(std::size_t i, std::size_t end, std::size_t alone) const {
    if (documents == nullptr) return alone;
    return static_cast<std::size_t>((*documents)[end * (documents->size() / 2) + sequence * length + i]);
  }
  std::size_t logsumexp(std::size_t row) const { return (sequence * length + row) * heads + head; }
  std::size_t probability(std::size_t i, std::size_t j) const {
    return ((sequence * heads + head) * length + i) * length + j;
  }
  // Among the heads of all devices.
  double mask(std::size_t i, std::size_t j) const {
    const auto [count, index] = call.op.attributes.shard;
    const std::size_t of_all =
        (sequence * static_cast<std::size_t>(count) + static_cast<std::size_t>(index)) * heads + head;
    return dropout_factor(call, static_cast<std::int64_t>((of_all * length + i) * length + j));
  }
  double score(const Tensor& values, std::size_t i, std::size_t j) const {
    double sum = 0;
    for (std::size_t d = 0; d < dim; ++d) sum += values[qkv(0, i, d)] * values[qkv(1, j, d)];
    const double cap = static_cast<double>(call.op.attributes.softcap);
    return cap > 0 ? cap * std::tanh(sum * scale() / cap) : sum * scale();
  }
  double scale() const {
    const double own = static_cast<double>(call.op.attributes.scale);
    return own > 0 ? own : 1 / std::sqrt(static_cast<double>(dim));
  }
  // The derivative of a score by the product of query and key.
  double slope(double score) const {
    const double cap = static_cast<double>(call.op.attributes.softcap), share = cap > 0 ? score / cap : 0;
    return scale() * (1 - share * share);
  }
};

template <typename F>
void for_each_head(const ReferenceCall& call, const Shape& qkv, const Tensor* documents, F function) {
  const auto& attributes = call.op.attributes;
  const auto length = static_cast<std::size_t>(attributes.sequence), heads = static_cast<std::size_t>(attributes.heads);
  const auto kv_heads = attributes.kv_heads > 0 ? static_cast<std::size_t>(attributes.kv_heads) : heads;
  const auto rows = static_cast<std::size_t>(qkv[0]), columns = static_cast<std::size_t>(qkv[1]);
  for (std::size_t sequence = 0; sequence < rows / length; ++sequence) {
    for (std::size_t head = 0; head < heads; ++head) {
      function(Head{call, sequence, head, length, heads, kv_heads, columns / (heads + 2 * kv_heads), documents});
    }
  }
}

// Calls function(row, head, gain, begin, size, normed) for each head of queries (gain 0) and keys (gain 1).
template <typename F>
void for_each_normed(const ReferenceCall& call, const Shape& qkv, F function) {
  const auto heads = static_cast<std::size_t>(call.op.attributes.heads);
  const std::size_t kv_heads =
      call.op.attributes.kv_heads > 0 ? static_cast<std::size_t>(call.op.attributes.kv_heads) : heads;
  const auto rows = static_cast<std::size_t>(qkv[0]), columns = static_cast<std::size_t>(qkv[1]);
  const std::size_t size = columns / (heads + 2 * kv_heads), normed = heads + kv_heads;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t head = 0; head < normed; ++head) {
      function(row, head, head < heads ? std::size_t{0} : std::size_t{1}, row * columns + head * size, size, normed);
    }
  }
}

}  // namespace

double gain_offset(const ReferenceCall& call) { return call.op.attributes.unit_offset ? 1 : 0; }

void reference_attention(const ReferenceCall& call) {
  for_each_head(call, call.shape(0), call.of_rows(1), [&](const Head& head) {
    for (std::size_t i = 0; i < head.length; ++i) {
      double highest = -INFINITY, sum = 0;
      for (std::size_t j = head.first(i); j < head.seen(i); ++j) highest = std::max(highest, head.score(call[0], i, j));
      for (std::size_t j = head.first(i); j < head.seen(i); ++j) sum += std::exp(head.score(call[0], i, j) - highest);
      call.output(1)[head.logsumexp(i)] = highest + std::log(sum);
      for (std::size_t d = 0; d < head.dim; ++d) call.output(0)[head.y(i, d)] = 0;
      for (std::size_t j = head.first(i); j < head.seen(i); ++j) {
        const double weight = std::exp(head.score(call[0], i, j) - highest) / sum * head.mask(i, j);
        for (std::size_t d = 0; d < head.dim; ++d) call.output(0)[head.y(i, d)] += weight * call[0][head.qkv(2, j, d)];
      }
    }
  });
}

// Operands: qkv, documents, y, cache.
void reference_cached_attention(const ReferenceCall& call) {
  const auto& attributes = call.op.attributes;
  const auto heads = static_cast<std::size_t>(attributes.heads), length = static_cast<std::size_t>(attributes.sequence);
  const auto kv_heads = attributes.kv_heads > 0 ? static_cast<std::size_t>(attributes.kv_heads) : heads;
  const auto rows = static_cast<std::size_t>(call.shape(0)[0]), columns = static_cast<std::size_t>(call.shape(0)[1]);
  const auto capacity = static_cast<std::size_t>(attributes.capacity);
  const std::size_t dim = columns / (heads + 2 * kv_heads), cached = 2 * kv_heads * dim;
  Tensor &y = call.output(0), &cache = call.output(1);
  const auto end_of = [&](std::size_t row) { return static_cast<std::size_t>(call[1][rows + row]); };
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < cached && end_of(row) > 0; ++i) {
      cache[(row / length * capacity + end_of(row) - 1) * cached + i] = call[0][row * columns + heads * dim + i];
    }
  }
  const double cap = static_cast<double>(attributes.softcap), own_scale = static_cast<double>(attributes.scale);
  const double scale = own_scale > 0 ? own_scale : 1 / std::sqrt(static_cast<double>(dim));
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t head = 0; head < heads; ++head) {
      const std::size_t end = end_of(row), shared = head * kv_heads / heads;
      const auto window = static_cast<std::size_t>(attributes.window);
      std::size_t first = static_cast<std::size_t>(call[1][row]);
      if (window > 0 && end > window) first = std::max(first, end - window);
      const auto place = [&](std::size_t j, std::size_t part, std::size_t d) {
        return (row / length * capacity + j) * cached + (part * kv_heads + shared) * dim + d;
      };
      std::vector<double> weights;
      double sum = 0;
      for (std::size_t j = first; j < end; ++j) {
        double score = 0;
        for (std::size_t d = 0; d < dim; ++d) {
          score += call[0][row * columns + head * dim + d] * cache[place(j, 0, d)];
        }
        score *= scale;
        weights.push_back(std::exp(cap > 0 ? cap * std::tanh(score / cap) : score));
        sum += weights.back();
      }
      for (std::size_t d = 0; d < dim; ++d) {
        double mixed = 0;
        for (std::size_t j = first; j < end; ++j) mixed += weights[j - first] / sum * cache[place(j, 1, d)];
        y[(row * heads + head) * dim + d] = mixed;
      }
    }
  }
}

// Operands: dy, qkv, y, logsumexp, dqkv.
void reference_attention_backward(const ReferenceCall& call) {
  const Tensor& qkv = call[1];
  Tensor& dqkv = call.output(0);
  std::fill(dqkv.begin(), dqkv.end(), 0.0);
  for_each_head(call, call.shape(1), call.of_rows(4), [&](const Head& head) {
    for (std::size_t i = 0; i < head.length; ++i) {
      double product = 0;
      for (std::size_t d = 0; d < head.dim; ++d) product += call[0][head.y(i, d)] * call[2][head.y(i, d)];
      for (std::size_t j = head.first(i); j < head.seen(i); ++j) {
        const double score = head.score(qkv, i, j), probability = std::exp(score - call[3][head.logsumexp(i)]);
        double dprobability = 0;
        for (std::size_t d = 0; d < head.dim; ++d) dprobability += call[0][head.y(i, d)] * qkv[head.qkv(2, j, d)];
        const double mask = head.mask(i, j), dscore = probability * (dprobability * mask - product) * head.slope(score);
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
  std::fill(call.output(0).begin(), call.output(0).end(), 0.0);
  for_each_head(call, call.shape(0), call.of_rows(1), [&](const Head& head) {
    for (std::size_t i = 0; i < head.length; ++i) {
      double highest = -INFINITY, sum = 0;
      for (std::size_t j = head.first(i); j < head.seen(i); ++j) highest = std::max(highest, head.score(call[0], i, j));
      for (std::size_t j = head.first(i); j < head.seen(i); ++j) sum += std::exp(head.score(call[0], i, j) - highest);
      for (std::size_t j = head.first(i); j < head.seen(i); ++j) {
        call.output(0)[head.probability(i, j)] = std::exp(head.score(call[0], i, j) - highest) / sum;
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
  for_each_head(call, call.shape(2), nullptr, [&](const Head& head) {
    for (std::size_t i = 0; i < head.length; ++i) {
      for (std::size_t j = head.first(i); j < head.seen(i); ++j) {
        double dscore = 0;
        for (std::size_t k = head.first(i); k < head.seen(i); ++k) {
          const double jacobian = p[head.probability(i, k)] * ((j == k ? 1.0 : 0.0) - p[head.probability(i, j)]);
          dscore += jacobian * dp[head.probability(i, k)];
        }
        dscore *= head.slope(head.score(qkv, i, j));
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
  for_each_head(call, call.shape(1), nullptr, [&](const Head& head) {
    for (std::size_t i = 0; i < head.length; ++i) {
      for (std::size_t j = head.first(i); j < head.seen(i); ++j) {
        const double weight = call[0][head.probability(i, j)];
        for (std::size_t d = 0; d < head.dim; ++d) call[2][head.y(i, d)] += weight * call[1][head.qkv(2, j, d)];
      }
    }
  });
}

// Operands: dy, probabilities, qkv, dprobabilities, dqkv.
void reference_attention_mix_backward(const ReferenceCall& call) {
  for (const std::size_t output : {3, 4}) std::fill(call[output].begin(), call[output].end(), 0.0);
  for_each_head(call, call.shape(2), nullptr, [&](const Head& head) {
    for (std::size_t i = 0; i < head.length; ++i) {
      for (std::size_t j = head.first(i); j < head.seen(i); ++j) {
        for (std::size_t d = 0; d < head.dim; ++d) {
          const double dy = call[0][head.y(i, d)];
          call[3][head.probability(i, j)] += dy * call[2][head.qkv(2, j, d)];
          call[4][head.qkv(2, j, d)] += dy * call[1][head.probability(i, j)];
        }
      }
    }
  });
}

// Operands: qkv, query_gain, key_gain, y, inverse_rms.
void reference_head_norm(const ReferenceCall& call) {
  call[3] = call[0];
  const double epsilon = static_cast<double>(call.op.attributes.epsilon);
  for_each_normed(call, call.shape(0),
                  [&](std::size_t row, std::size_t head, std::size_t gain, std::size_t begin, std::size_t size,
                      std::size_t normed) {
                    double squares = 0;
                    for (std::size_t d = 0; d < size; ++d) squares += call[0][begin + d] * call[0][begin + d];
                    const double inverse = 1 / std::sqrt(squares / static_cast<double>(size) + epsilon);
                    for (std::size_t d = 0; d < size; ++d) {
                      call[3][begin + d] = call[0][begin + d] * inverse * (gain_offset(call) + call[1 + gain][d]);
                    }
                    call[4][row * normed + head] = inverse;
                  });
}

// Operands: dy, qkv, query_gain, key_gain, inverse_rms, dqkv, dquery_gain, dkey_gain.
void reference_head_norm_backward(const ReferenceCall& call) {
  call[5] = call[0];
  for_each_normed(call, call.shape(1),
                  [&](std::size_t row, std::size_t head, std::size_t gain, std::size_t begin, std::size_t size,
                      std::size_t normed) {
                    const double inverse = call[4][row * normed + head];
                    double product = 0;
                    for (std::size_t d = 0; d < size; ++d) {
                      const std::size_t i = begin + d;
                      product += call[0][i] * (gain_offset(call) + call[2 + gain][d]) * call[1][i];
                      call[6 + gain][d] += call[0][i] * call[1][i] * inverse;
                    }
                    for (std::size_t d = 0; d < size; ++d) {
                      const std::size_t i = begin + d;
                      const double through_rms =
                          call[1][i] * inverse * inverse * inverse / static_cast<double>(size) * product;
                      call[5][i] = call[0][i] * (gain_offset(call) + call[2 + gain][d]) * inverse - through_rms;
                    }
                  });
}

// Radians per position of pair j, by the definition of each kind: Meta's code for Llama 3.1; equations 17 to 23 of the
// YaRN paper, its ramp from and to whole dimensions.
double rotary_frequency(const compiler::Attributes& attributes, std::size_t j, std::size_t dim) {
  using Kind = compiler::RotaryScaling::Kind;
  const compiler::RotaryScaling& scaling = attributes.rotary_scaling;
  const double d = static_cast<double>(dim), factor = static_cast<double>(scaling.factor), pi = std::acos(-1.0);
  const double context = static_cast<double>(scaling.positions),
               sequence = attributes.positions > 0 ? attributes.positions : attributes.sequence;
  double base = static_cast<double>(attributes.rotary_base);
  if (scaling.kind == Kind::dynamic && sequence > context) {
    base *= std::pow(factor * sequence / context - factor + 1, d / (d - 2));
  }
  const double plain = 1 / std::pow(base, 2 * static_cast<double>(j) / d), wavelength = 2 * pi / plain;
  if (scaling.kind == Kind::linear) return plain / factor;
  if (scaling.kind == Kind::llama3) {
    const double low = static_cast<double>(scaling.low_frequency), high = static_cast<double>(scaling.high_frequency);
    if (wavelength < context / high) return plain;
    if (wavelength > context / low) return plain / factor;
    const double smooth = (context / wavelength - low) / (high - low);
    return (1 - smooth) * plain / factor + smooth * plain;
  }
  if (scaling.kind != Kind::yarn) return plain;
  const auto dimension = [&](float turns) {
    return d * std::log(context / (static_cast<double>(turns) * 2 * pi)) / (2 * std::log(base));
  };
  const double begin = std::max(std::floor(dimension(scaling.beta_fast)), 0.0);
  const double end = std::min(std::ceil(dimension(scaling.beta_slow)), d - 1);
  const double ramp = std::clamp((static_cast<double>(j) - begin) / std::max(end - begin, 1e-3), 0.0, 1.0);
  return plain / factor * ramp + plain * (1 - ramp);
}

// The heads of queries and of keys as complex numbers (element j, element j + dim / 2), turned by their place.
void reference_rotary(const ReferenceCall& call) {
  const double magnitude = static_cast<double>(call.op.attributes.rotary_scaling.magnitude);
  const Tensor* const positions = call.of_rows(1);
  call.output(0) = call[0];
  for_each_head(call, call.shape(0), nullptr, [&](const Head& head) {
    for (std::size_t place = 0; place < head.length; ++place) {
      const double position =
          positions != nullptr ? (*positions)[head.sequence * head.length + place] : static_cast<double>(place);
      for (std::size_t j = 0; j < head.dim / 2; ++j) {
        const double angle = position * rotary_frequency(call.op.attributes, j, head.dim);
        const std::complex<double> turn = std::polar(magnitude, call.op.attributes.inverse ? -angle : angle);
        for (const std::size_t part : {0, 1}) {
          const std::size_t at = head.qkv(part, place, j), other = head.qkv(part, place, j + head.dim / 2);
          const std::complex<double> turned = std::complex<double>(call[0][at], call[0][other]) * turn;
          call.output(0)[at] = turned.real();
          call.output(0)[other] = turned.imag();
        }
      }
    }
  });
}

}  // namespace l2l::test

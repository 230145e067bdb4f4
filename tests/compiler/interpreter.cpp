// One function per op kind, and nothing that they could share: long because the list of ops is.
#include "tests/compiler/interpreter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

namespace l2l::compiler {
namespace {

// 0, or 1 / (1 - probability).
double mask(const Attributes& attributes, std::size_t element) {
  std::uint64_t z = (std::uint64_t{attributes.rng_op} << 32) + element + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  const double uniform = static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  const double probability = static_cast<double>(attributes.probability);
  return uniform < probability ? 0 : 1 / (1 - probability);
}

struct Interpreter {
  const Graph& graph;
  Memory& memory;
  std::vector<std::vector<double>> scratch;
  const Op* op = nullptr;

  double* at(ValueId id) {
    const Value& value = graph.value(id);
    if (value.region == Region::scratch) return scratch[static_cast<std::size_t>(id)].data();
    return memory[value.region].data() + value.offset / size_of(value.dtype);
  }
  double* in(std::size_t i) { return at(op->inputs[i]); }
  double* out(std::size_t i) { return at(op->outputs[i]); }
  std::size_t in_dim(std::size_t i, std::size_t axis) const {
    return static_cast<std::size_t>(graph.value(op->inputs[i]).shape[axis]);
  }
  std::size_t out_dim(std::size_t i, std::size_t axis) const {
    return static_cast<std::size_t>(graph.value(op->outputs[i]).shape[axis]);
  }
  std::size_t elements(ValueId id) const { return static_cast<std::size_t>(graph.value(id).shape.elements()); }

  void embedding() {
    const std::size_t width = in_dim(1, 1), sequence = static_cast<std::size_t>(op->attributes.sequence);
    for (std::size_t r = 0; r < in_dim(0, 0); ++r) {
      const auto token = static_cast<std::size_t>(in(0)[r]);
      for (std::size_t c = 0; c < width; ++c) {
        out(0)[r * width + c] = in(1)[token * width + c] + in(2)[r % sequence * width + c];
      }
    }
  }

  void embedding_backward() {
    const std::size_t width = in_dim(1, 1), sequence = static_cast<std::size_t>(op->attributes.sequence);
    for (std::size_t r = 0; r < in_dim(0, 0); ++r) {
      const auto token = static_cast<std::size_t>(in(0)[r]);
      for (std::size_t c = 0; c < width; ++c) {
        out(0)[token * width + c] += in(1)[r * width + c];
        out(1)[r % sequence * width + c] += in(1)[r * width + c];
      }
    }
  }

  // Of a table in one chunk.
  void embedding_rows() {
    const std::size_t width = in_dim(1, 1);
    for (std::size_t i = 0; i < elements(op->outputs[0]); ++i) {
      out(0)[i] = in(1)[static_cast<std::size_t>(in(0)[i / width]) * width + i % width];
    }
  }

  void layer_norm() {
    const std::size_t width = in_dim(0, 1);
    for (std::size_t r = 0; r < in_dim(0, 0); ++r) {
      const double* x = in(0) + r * width;
      double mean = 0, variance = 0;
      for (std::size_t c = 0; c < width; ++c) mean += x[c] / static_cast<double>(width);
      for (std::size_t c = 0; c < width; ++c) variance += (x[c] - mean) * (x[c] - mean) / static_cast<double>(width);
      const double inverse = 1 / std::sqrt(variance + static_cast<double>(op->attributes.epsilon));
      for (std::size_t c = 0; c < width; ++c) out(0)[r * width + c] = (x[c] - mean) * inverse * in(1)[c] + in(2)[c];
      out(1)[r] = mean;
      out(2)[r] = inverse;
    }
  }

  void layer_norm_backward() {
    const std::size_t width = in_dim(0, 1);
    for (std::size_t r = 0; r < in_dim(0, 0); ++r) {
      const double *dy = in(0) + r * width, *x = in(1) + r * width, *gain = in(2);
      const double mean = in(3)[r], inverse = in(4)[r];
      double sum = 0, projected = 0;
      for (std::size_t c = 0; c < width; ++c) {
        const double normed = (x[c] - mean) * inverse;
        out(1)[c] += dy[c] * normed;
        out(2)[c] += dy[c];
        sum += dy[c] * gain[c] / static_cast<double>(width);
        projected += dy[c] * gain[c] * normed / static_cast<double>(width);
      }
      for (std::size_t c = 0; c < width; ++c) {
        const double normed = (x[c] - mean) * inverse;
        out(0)[r * width + c] = inverse * (dy[c] * gain[c] - sum - normed * projected);
      }
    }
  }

  void matmul() {
    const Attributes& a = op->attributes;
    const std::size_t rows = out_dim(0, 0), columns = out_dim(0, 1), inner = in_dim(0, a.transpose_a ? 0 : 1);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        double sum = op->inputs.size() > 2 ? in(2)[j] : 0;
        for (std::size_t k = 0; k < inner; ++k) {
          sum += in(0)[a.transpose_a ? k * rows + i : i * inner + k] *
                 in(1)[a.transpose_b ? j * inner + k : k * columns + j];
        }
        double& y = out(0)[i * columns + j];
        y = a.accumulate ? y + sum : sum;
      }
    }
  }

  void bias_gradient() {
    const std::size_t width = in_dim(0, 1);
    for (std::size_t i = 0; i < elements(op->inputs[0]); ++i) out(0)[i % width] += in(0)[i];
  }

  static constexpr double kSlope = 0.79788456080286535588;  // sqrt(2 / pi)
  static constexpr double kCubic = 0.044715;

  static double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
  static double normal_density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * std::acos(-1.0)); }

  void gelu() {
    for (std::size_t i = 0; i < elements(op->inputs[0]); ++i) {
      const double x = in(0)[i];
      const double gate = 0.5 * (1 + std::tanh(kSlope * (x + kCubic * x * x * x)));
      out(0)[i] = x * (op->attributes.exact ? normal_distribution(x) : gate);
    }
  }

  void gelu_backward() {
    for (std::size_t i = 0; i < elements(op->inputs[0]); ++i) {
      const double x = in(1)[i], t = std::tanh(kSlope * (x + kCubic * x * x * x));
      const double slope = kSlope * (1 + 3 * kCubic * x * x);
      const double of_tanh = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope;
      out(0)[i] = in(0)[i] * (op->attributes.exact ? normal_distribution(x) + x * normal_density(x) : of_tanh);
    }
  }

  // Rows of x are gate and up.
  void swiglu() {
    const std::size_t width = out_dim(0, 1);
    for (std::size_t i = 0; i < elements(op->outputs[0]); ++i) {
      const double *gate = in(0) + i / width * 2 * width + i % width, *up = gate + width;
      out(0)[i] = *gate / (1 + std::exp(-*gate)) * *up;
    }
  }

  void swiglu_backward() {
    const std::size_t width = in_dim(0, 1);
    for (std::size_t i = 0; i < elements(op->inputs[0]); ++i) {
      const std::size_t at = i / width * 2 * width + i % width;
      const double gate = in(1)[at], s = 1 / (1 + std::exp(-gate));
      out(0)[at] = in(0)[i] * in(1)[at + width] * (s + gate * s * (1 - s));
      out(0)[at + width] = in(0)[i] * gate * s;
    }
  }

  void rms_norm() {
    const std::size_t width = in_dim(0, 1);
    for (std::size_t r = 0; r < in_dim(0, 0); ++r) {
      const double* x = in(0) + r * width;
      const double mean = dot(x, x, width) / static_cast<double>(width);
      out(1)[r] = 1 / std::sqrt(mean + static_cast<double>(op->attributes.epsilon));
      for (std::size_t c = 0; c < width; ++c) out(0)[r * width + c] = x[c] * out(1)[r] * in(1)[c];
    }
  }

  void rms_norm_backward() {
    const std::size_t width = in_dim(0, 1);
    for (std::size_t r = 0; r < in_dim(0, 0); ++r) {
      const double *dy = in(0) + r * width, *x = in(1) + r * width, *gain = in(2), inverse = in(3)[r];
      double projected = 0;
      for (std::size_t c = 0; c < width; ++c) {
        out(1)[c] += dy[c] * x[c] * inverse;
        projected += dy[c] * gain[c] * x[c] * inverse / static_cast<double>(width);
      }
      for (std::size_t c = 0; c < width; ++c) {
        out(0)[r * width + c] = inverse * (dy[c] * gain[c] - x[c] * inverse * projected);
      }
    }
  }

  void add_positions() {
    const std::size_t period = in_dim(0, 1) * static_cast<std::size_t>(op->attributes.sequence);
    for (std::size_t i = 0; i < elements(op->inputs[0]); ++i) out(0)[i] = in(0)[i] + in(1)[i % period];
  }

  void positions_backward() {
    const std::size_t period = in_dim(0, 1) * static_cast<std::size_t>(op->attributes.sequence);
    for (std::size_t i = 0; i < elements(op->inputs[0]); ++i) out(0)[i % period] += in(0)[i];
  }

  void dropout() {
    for (std::size_t i = 0; i < elements(op->inputs[0]); ++i) out(0)[i] = in(0)[i] * mask(op->attributes, i);
  }

  void add() {
    for (std::size_t i = 0; i < elements(op->inputs[0]); ++i) out(0)[i] = in(0)[i] + in(1)[i];
  }

  void split_streams() {
    for (std::size_t output = 0; output < op->outputs.size(); ++output) {
      std::copy_n(in(0), elements(op->inputs[0]), out(output));
    }
  }

  void read_stream() { std::copy_n(in(0), elements(op->inputs[0]), out(0)); }

  void reversible_add() {
    const double sign = op->attributes.inverse ? -1 : 1;
    for (std::size_t i = 0; i < elements(op->inputs[0]); ++i) out(0)[i] = in(0)[i] + sign * in(1)[i];
  }

  // Calls visit(row, head, first row of the sequence) for each row and head.
  template <typename Visit>
  void each_query(const Visit& visit) {
    const auto heads = static_cast<std::size_t>(op->attributes.heads);
    const auto sequence = static_cast<std::size_t>(op->attributes.sequence);
    for (std::size_t row = 0; row < in_dim(0, 0); ++row) {
      for (std::size_t head = 0; head < heads; ++head) visit(row, head, row - row % sequence);
    }
  }

  struct Heads {
    std::size_t width, size;  // H, H / heads
    std::size_t queries, shared;
    double scale;
  };
  Heads heads(std::size_t width) const {
    const auto queries = static_cast<std::size_t>(op->attributes.heads), size = width / queries;
    return {width, size, queries, static_cast<std::size_t>(kv_heads(op->attributes)),
            1 / std::sqrt(static_cast<double>(size))};
  }
  // Part 0: queries, 1: keys, 2: values; `head` is that of the query.
  static double* part(double* qkv, const Heads& h, std::size_t row, std::size_t head, std::size_t part) {
    const std::size_t first = part == 0 ? 0 : h.queries + (part - 1) * h.shared;
    const std::size_t place = first + (part == 0 ? head : head / (h.queries / h.shared));
    return qkv + (row * (h.queries + 2 * h.shared) + place) * h.size;
  }
  // The last key that the query of `row` sees; `first` is its sequence's first row.
  std::size_t last_key(std::size_t row, std::size_t first) const {
    return op->attributes.causal ? row : first + static_cast<std::size_t>(op->attributes.sequence) - 1;
  }
  static double dot(const double* a, const double* b, std::size_t n) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
  }
  double attention_mask(std::size_t row, std::size_t head, std::size_t key) const {
    const auto sequence = static_cast<std::size_t>(op->attributes.sequence);
    return mask(op->attributes, (row * static_cast<std::size_t>(op->attributes.heads) + head) * sequence + key);
  }

  void attention() {
    const Heads h = heads(out_dim(0, 1));
    each_query([&](std::size_t row, std::size_t head, std::size_t first) {
      const double* query = part(in(0), h, row, head, 0);
      double sum = 0;
      for (std::size_t key = first; key <= last_key(row, first); ++key) {
        sum += std::exp(h.scale * dot(query, part(in(0), h, key, head, 1), h.size));
      }
      double* y = out(0) + row * h.width + head * h.size;
      std::fill(y, y + h.size, 0.0);
      for (std::size_t key = first; key <= last_key(row, first); ++key) {
        const double weight = std::exp(h.scale * dot(query, part(in(0), h, key, head, 1), h.size)) / sum *
                              attention_mask(row, head, key - first);
        for (std::size_t c = 0; c < h.size; ++c) y[c] += weight * part(in(0), h, key, head, 2)[c];
      }
      out(1)[row * static_cast<std::size_t>(op->attributes.heads) + head] = std::log(sum);
    });
  }

  void attention_backward() {
    const Heads h = heads(in_dim(0, 1));
    std::fill(out(0), out(0) + elements(op->outputs[0]), 0.0);
    each_query([&](std::size_t row, std::size_t head, std::size_t first) {
      const std::size_t place = row * h.width + head * h.size;
      const double *dy = in(0) + place, *query = part(in(1), h, row, head, 0);
      const double through_sum = dot(dy, in(2) + place, h.size);
      const double logsumexp = in(3)[row * static_cast<std::size_t>(op->attributes.heads) + head];
      for (std::size_t key = first; key <= last_key(row, first); ++key) {
        const double* k = part(in(1), h, key, head, 1);
        const double weight = std::exp(h.scale * dot(query, k, h.size) - logsumexp);
        const double kept = attention_mask(row, head, key - first);
        const double dscore = weight * (kept * dot(dy, part(in(1), h, key, head, 2), h.size) - through_sum) * h.scale;
        for (std::size_t c = 0; c < h.size; ++c) {
          part(out(0), h, row, head, 0)[c] += dscore * k[c];
          part(out(0), h, key, head, 1)[c] += dscore * query[c];
          part(out(0), h, key, head, 2)[c] += weight * kept * dy[c];
        }
      }
    });
  }

  // Where the probabilities of a query begin: matrices of one head after the other.
  std::size_t probabilities_of(std::size_t row, std::size_t head) const {
    const auto sequence = static_cast<std::size_t>(op->attributes.sequence);
    const auto heads = static_cast<std::size_t>(op->attributes.heads);
    return ((row / sequence * heads + head) * sequence + row % sequence) * sequence;
  }
  // As each_query(), for ops whose first input is no matrix of rows.
  template <typename Visit>
  void each_core_query(std::size_t rows, const Visit& visit) {
    const auto sequence = static_cast<std::size_t>(op->attributes.sequence);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t head = 0; head < static_cast<std::size_t>(op->attributes.heads); ++head) {
        visit(row, head, row - row % sequence, probabilities_of(row, head));
      }
    }
  }
  Heads core_heads(std::size_t columns) const {
    const std::size_t all = static_cast<std::size_t>(op->attributes.heads + 2 * kv_heads(op->attributes));
    return heads(columns / all * static_cast<std::size_t>(op->attributes.heads));
  }

  void attention_probabilities() {
    const Heads h = core_heads(in_dim(0, 1));
    std::fill(out(0), out(0) + elements(op->outputs[0]), 0.0);
    each_core_query(in_dim(0, 0), [&](std::size_t row, std::size_t head, std::size_t first, std::size_t at) {
      double sum = 0;
      for (std::size_t key = first; key <= last_key(row, first); ++key) {
        double& p = out(0)[at + key - first];
        p = std::exp(h.scale * dot(part(in(0), h, row, head, 0), part(in(0), h, key, head, 1), h.size));
        sum += p;
      }
      for (std::size_t key = first; key <= last_key(row, first); ++key) out(0)[at + key - first] /= sum;
    });
  }

  void attention_probabilities_backward() {
    const Heads h = core_heads(in_dim(2, 1));
    const std::size_t size = elements(op->outputs[0]);
    std::fill(out(0), out(0) + size, 0.0);
    if (op->inputs.size() > 3) std::copy_n(in(3), size, out(0));
    each_core_query(in_dim(2, 0), [&](std::size_t row, std::size_t head, std::size_t first, std::size_t at) {
      const std::size_t seen = last_key(row, first) - first + 1;
      const double through_sum = dot(in(0) + at, in(1) + at, seen);
      for (std::size_t key = first; key < first + seen; ++key) {
        const std::size_t element = at + key - first;
        const double dscore = in(1)[element] * (in(0)[element] - through_sum) * h.scale;
        for (std::size_t c = 0; c < h.size; ++c) {
          part(out(0), h, row, head, 0)[c] += dscore * part(in(2), h, key, head, 1)[c];
          part(out(0), h, key, head, 1)[c] += dscore * part(in(2), h, row, head, 0)[c];
        }
      }
    });
  }

  void attention_mix() {
    const Heads h = core_heads(in_dim(1, 1));
    std::fill(out(0), out(0) + elements(op->outputs[0]), 0.0);
    each_core_query(in_dim(1, 0), [&](std::size_t row, std::size_t head, std::size_t first, std::size_t at) {
      double* y = out(0) + row * h.width + head * h.size;
      for (std::size_t key = first; key <= last_key(row, first); ++key) {
        const double p = in(0)[at + key - first];
        for (std::size_t c = 0; c < h.size; ++c) y[c] += p * part(in(1), h, key, head, 2)[c];
      }
    });
  }

  void attention_mix_backward() {
    const Heads h = core_heads(in_dim(2, 1));
    for (std::size_t i = 0; i < 2; ++i) std::fill(out(i), out(i) + elements(op->outputs[i]), 0.0);
    each_core_query(in_dim(2, 0), [&](std::size_t row, std::size_t head, std::size_t first, std::size_t at) {
      const double* dy = in(0) + row * h.width + head * h.size;
      for (std::size_t key = first; key <= last_key(row, first); ++key) {
        out(0)[at + key - first] = dot(dy, part(in(2), h, key, head, 2), h.size);
        for (std::size_t c = 0; c < h.size; ++c) part(out(1), h, key, head, 2)[c] += in(1)[at + key - first] * dy[c];
      }
    });
  }

  void rotary() {
    const Attributes& a = op->attributes;
    const std::size_t width = in_dim(0, 1), turned = static_cast<std::size_t>(a.heads + kv_heads(a)),
                      size = width / (turned + static_cast<std::size_t>(kv_heads(a)));
    std::copy_n(in(0), elements(op->inputs[0]), out(0));
    for (std::size_t row = 0; row < in_dim(0, 0); ++row) {
      const double place = static_cast<double>(row % static_cast<std::size_t>(a.sequence)) * (a.inverse ? -1 : 1);
      for (std::size_t i = 0; i < turned * size / 2; ++i) {
        const std::size_t j = i % (size / 2), at = row * width + i / (size / 2) * size + j;
        const double angle = place * std::pow(static_cast<double>(a.rotary_base),
                                              -2.0 * static_cast<double>(j) / static_cast<double>(size));
        const double x = in(0)[at], y = in(0)[at + size / 2];
        out(0)[at] = x * std::cos(angle) - y * std::sin(angle);
        out(0)[at + size / 2] = x * std::sin(angle) + y * std::cos(angle);
      }
    }
  }

  // Softmax of a row's logits, and the row's loss.
  std::vector<double> probabilities(std::size_t row, double& loss) {
    const std::size_t width = in_dim(0, 1), vocabulary = in_dim(1, 0);
    std::vector<double> p(vocabulary);
    double sum = 0;
    for (std::size_t v = 0; v < vocabulary; ++v) {
      const double bias = op->inputs.size() > 3 ? in(3)[v] : 0;
      p[v] = std::exp(dot(in(0) + row * width, in(1) + v * width, width) + bias);
      sum += p[v];
    }
    for (double& value : p) value /= sum;
    loss = -std::log(p[static_cast<std::size_t>(in(2)[row])]);
    return p;
  }

  void linear_cross_entropy(bool backward) {
    const std::size_t width = in_dim(0, 1);
    out(0)[0] = 0;
    if (backward) std::fill(out(1), out(1) + elements(op->outputs[1]), 0.0);
    for (std::size_t row = 0; row < in_dim(0, 0); ++row) {
      if (in(2)[row] < 0) continue;
      double loss = 0;
      std::vector<double> p = probabilities(row, loss);
      out(0)[0] += loss;
      if (!backward) continue;
      p[static_cast<std::size_t>(in(2)[row])] -= 1;
      for (std::size_t v = 0; v < p.size(); ++v) {
        if (op->outputs.size() > 3) out(3)[v] += p[v];
        for (std::size_t c = 0; c < width; ++c) {
          out(1)[row * width + c] += p[v] * in(1)[v * width + c];
          out(2)[v * width + c] += p[v] * in(0)[row * width + c];
        }
      }
    }
  }

  void loss() { linear_cross_entropy(false); }
  void loss_backward() { linear_cross_entropy(true); }

  void run() {
    static const std::map<OpKind, void (Interpreter::*)()> kOps = {
        {OpKind::embedding, &Interpreter::embedding},
        {OpKind::embedding_backward, &Interpreter::embedding_backward},
        {OpKind::layer_norm, &Interpreter::layer_norm},
        {OpKind::layer_norm_backward, &Interpreter::layer_norm_backward},
        {OpKind::matmul, &Interpreter::matmul},
        {OpKind::bias_gradient, &Interpreter::bias_gradient},
        {OpKind::gelu, &Interpreter::gelu},
        {OpKind::gelu_backward, &Interpreter::gelu_backward},
        {OpKind::attention, &Interpreter::attention},
        {OpKind::attention_backward, &Interpreter::attention_backward},
        {OpKind::dropout, &Interpreter::dropout},
        {OpKind::add, &Interpreter::add},
        {OpKind::linear_cross_entropy, &Interpreter::loss},
        {OpKind::linear_cross_entropy_backward, &Interpreter::loss_backward},
        {OpKind::add_positions, &Interpreter::add_positions},
        {OpKind::positions_backward, &Interpreter::positions_backward},
        {OpKind::rms_norm, &Interpreter::rms_norm},
        {OpKind::rms_norm_backward, &Interpreter::rms_norm_backward},
        {OpKind::rotary, &Interpreter::rotary},
        {OpKind::swiglu, &Interpreter::swiglu},
        {OpKind::swiglu_backward, &Interpreter::swiglu_backward},
        {OpKind::attention_probabilities, &Interpreter::attention_probabilities},
        {OpKind::attention_probabilities_backward, &Interpreter::attention_probabilities_backward},
        {OpKind::attention_mix, &Interpreter::attention_mix},
        {OpKind::attention_mix_backward, &Interpreter::attention_mix_backward},
        {OpKind::embedding_rows, &Interpreter::embedding_rows},
        {OpKind::split_streams, &Interpreter::split_streams},
        {OpKind::reshape, &Interpreter::read_stream},
        {OpKind::merge_streams, &Interpreter::add},
        {OpKind::read_stream, &Interpreter::read_stream},
        {OpKind::reversible_add, &Interpreter::reversible_add}};
    const auto known = kOps.find(op->kind);
    if (known == kOps.end()) throw std::logic_error("the interpreter does not know this op");
    (this->*known->second)();
  }
};

}  // namespace

std::size_t region_elements(const Graph& graph, Region region) {
  std::size_t end = 0;
  for (const Value& value : graph.values) {
    if (value.region != region) continue;
    end = std::max(end, value.offset / size_of(value.dtype) + static_cast<std::size_t>(value.shape.elements()));
  }
  return end;
}

void interpret(const Graph& graph, Memory& memory) {
  for (std::size_t r = 0; r < memory.regions.size(); ++r) {
    const std::size_t elements = region_elements(graph, static_cast<Region>(r));
    if (memory.regions[r].size() < elements) memory.regions[r].resize(elements, 0.0);
  }
  Interpreter interpreter{graph, memory, {}};
  for (const Value& value : graph.values) {
    interpreter.scratch.emplace_back(static_cast<std::size_t>(value.shape.elements()), std::nan(""));
  }
  for (const Op& op : graph.ops) {
    interpreter.op = &op;
    interpreter.run();
  }
}

}  // namespace l2l::compiler

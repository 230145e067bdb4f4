// A program's own layers, described as graphs of ops. The backward pass, recomputation, memory plans and device
// programs follow from the graph, as they do for the built-in families.
//
//   options.model.blocks = {{.id = 0, .type = "mlp", .build = mlp}, {.id = 1, .type = "mlp", .build = mlp}};
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "l2l/export.h"

namespace l2l {

// A value of the graph that is being built: a matrix in precision.compute, or a parameter.
struct Value {
  std::int32_t id = -1;
};

// What a parameter begins with. Drawn from the run's seed, the layer's id and the parameter's place in it.
struct Distribution {
  enum class Kind : std::uint8_t { zeros, ones, normal, uniform };
  Kind kind = Kind::zeros;
  double scale = 0;  // normal: the standard deviation; uniform: the bound on both sides of 0

  static Distribution zeros() { return {}; }
  static Distribution ones() { return {Kind::ones, 0}; }
  static Distribution normal(double deviation) { return {Kind::normal, deviation}; }
  static Distribution uniform(double bound) { return {Kind::uniform, bound}; }
};

struct AttentionSettings {
  int heads = 1;
  int kv_heads = 0;    // each shared by heads / kv_heads query heads; 0: as many as heads
  bool causal = true;  // a row sees itself and those before it in its sequence; else all of them
  int window = 0;      // it sees no row before row - window + 1; 0: no limit; causal alone
  double scale = 0;    // factor of scores; 0: 1 / sqrt(elements of a head)
  double softcap = 0;  // c: scores s become c tanh(s / c); 0: they do not
  double dropout = 0;  // of probabilities, in [0, 1)
};

// Activation of the gate of gated().
enum class Gate : std::uint8_t { silu, gelu, gelu_tanh };

// Describes one layer. Every function appends an op and returns its result; x, a and b are matrices [rows, columns] of
// which each row is a token. All are rounded to precision.compute and differentiable. They throw BadInput naming the op
// and the sizes that do not fit. Thread-bound; only within Layer::build.
class L2L_API LayerBuilder {
 public:
  struct L2L_HIDDEN Implementation;
  explicit LayerBuilder(Implementation& self) : self_(self) {}
  LayerBuilder(const LayerBuilder&) = delete;
  LayerBuilder& operator=(const LayerBuilder&) = delete;

  std::int64_t sequence() const;        // rows of a sequence
  std::int64_t rows() const;            // of a microbatch: a whole number of sequences
  std::int64_t columns(Value x) const;  // of a vector: its elements

  // Parameters. Matrices are subject to weight decay, vectors are not. What they begin with depends on the order in
  // which they are declared: declare each in a statement of its own, since the order of a call's arguments is the
  // compiler's. Names have letters, digits, '_', '-' and '.', and occur once in a layer.
  Value matrix(const std::string& name, std::int64_t rows, std::int64_t columns, Distribution initial);
  Value vector(const std::string& name, std::int64_t elements, Distribution initial);
  // Several matrices, by name and rows, as one [all rows, columns]: queries, keys and values in one
  // linear_transposed().
  Value matrices(const std::vector<std::pair<std::string, std::int64_t>>& pieces, std::int64_t columns,
                 Distribution initial);

  Value linear(Value x, Value w, std::optional<Value> b = {});             // x w + b, w [columns, out], b [out]
  Value linear_transposed(Value x, Value w, std::optional<Value> b = {});  // x w^T + b, w [out, columns], b [out]
  // (x - mean) / sqrt(variance + epsilon) * gain + bias, over each row.
  Value layer_norm(Value x, Value gain, Value bias, double epsilon = 1e-5);
  Value rms_norm(Value x, Value gain, double epsilon = 1e-5);  // x / sqrt(mean(x^2) + epsilon) * gain, over each row
  Value gelu(Value x, bool exact = true);                      // x Phi(x); else its tanh form
  Value tanh(Value x);
  Value sigmoid(Value x);                        // 1 / (1 + e^-x)
  Value silu(Value x);                           // x / (1 + e^-x)
  Value relu(Value x);                           // max(x, 0)
  Value gated(Value x, Gate gate = Gate::silu);  // gate(g) * u, of x = [g | u] by columns
  Value dropout(Value x, double probability);    // in [0, 1); kept elements are scaled by 1 / (1 - probability)
  Value add(Value a, Value b);
  Value multiply(Value a, Value b);  // element by element
  Value scale(Value x, double factor);
  // x, to whose columns from `first` on factor * y is added.
  Value add_columns(Value x, Value y, std::int64_t first, double factor = 1);
  // Of x = [queries | keys | values] by columns, each of whole heads: softmax(scale q k^T) v, [rows, columns of the
  // queries]. Rows see their own document alone where data.samples = "packed".
  Value attention(Value x, const AttentionSettings& settings);
  // Queries and keys of [queries | keys | values], of which the pairs (j, j + d/2) of each head's d elements turn by
  // position * base^(-2j/d) (rotary positions; Su et al., 2021).
  Value rotary(Value x, int heads, int kv_heads = 0, double base = 10000);

 private:
  Implementation& self_;
};

// A layer between embedding and head. Layers of one type are the same graph with parameters of their own.
struct Layer {
  // Stable: parameters are named by it ("h.ID.NAME" beside gpt2's embedding), random numbers follow from it, and
  // checkpoints keep what belongs to it. Unique in the model, below 2^31.
  std::uint32_t id = 0;
  std::string type = {};
  // Describes the layer from its input to its output; called for each layer, and for each length of sequences. In this
  // version both are one value, [rows, model.hidden]. Empty: block `id` of model.architecture, and no type.
  using Build = std::function<std::vector<Value>(LayerBuilder& graph, std::span<const Value> inputs)>;
  Build build = nullptr;
  // An earlier layer of the same type, whose parameters this one uses: they are updated once a step, with the gradients
  // of all their uses.
  std::optional<std::uint32_t> shares = {};
};

}  // namespace l2l

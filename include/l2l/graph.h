// A program's own layers, described as graphs of ops. The backward pass, recomputation, memory plans and device
// programs follow from the graph, as they do for the built-in families.
//
//   options.model.blocks = {{.id = 0, .type = "mlp", .build = mlp}, {.id = 1, .type = "mlp", .build = mlp}};
//
// They stand between the embedding and the head of a family, or, with model.architecture = "custom", are the whole
// model, from the tensors that samples bring (model.inputs) to a loss of one's own (model.loss).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "l2l/custom_op.h"
#include "l2l/export.h"

namespace l2l {

// A value of the graph that is being built: a tensor of two to eight dimensions, or a parameter. Dimension 0 is the
// sample; in a family's model values are [rows, columns], of which each row is a token. It belongs to one call of one
// layer's function: what a later layer is to read goes through the layers between, as their inputs and results.
struct Value {
  std::int32_t id = -1;
  std::uint32_t graph = 0;  // which it belongs to
};

// A tensor that each sample brings (model.inputs, model.targets).
struct TensorSpec {
  // i32: indices. f32, f16, bf16 and u8 (0 to 255): numbers, which layers read rounded to precision.compute.
  enum class Element : std::uint8_t { f32, i32, u8, f16, bf16 };
  std::string name;
  std::vector<std::int64_t> shape = {};  // of one sample: at most seven dimensions and 2^34 elements; none: one
  Element element = Element::f32;
  std::int64_t below = 0;  // of indices: they lie in [0, below); in targets also -1, which stands for none
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
  int kv_heads = 0;  // each shared by heads / kv_heads query heads; 0: as many as heads
  // A row sees itself and those before it in its sequence; else all of them: the model then continues no text, and
  // data.samples is "packed" where samples are short.
  bool causal = true;
  int window = 0;      // it sees no row before row - window + 1; 0: no limit; causal alone
  double scale = 0;    // factor of scores; 0: 1 / sqrt(elements of a head)
  double softcap = 0;  // c: scores s become c tanh(s / c); 0: they do not
  double dropout = 0;  // of probabilities, in [0, 1)
};

// Activation of the gate of gated().
enum class Gate : std::uint8_t { silu, gelu, gelu_tanh };

// A window that slides over the height and the width of images; of each pair the height comes first.
struct Window {
  std::array<int, 2> size = {1, 1}, stride = {1, 1};
  std::array<int, 2> padding = {0, 0};  // elements of 0 on both sides
  std::array<int, 2> dilation = {1, 1};
};

// Describes one layer. Every function appends an op and returns its result. "Columns" are the last dimension, "rows"
// all others. Results are rounded to precision.compute, unless it says otherwise, and differentiable. They throw
// BadInput naming the op and the sizes that do not fit. Thread-bound; only within Layer::build and the loss.
class L2L_API LayerBuilder {
 public:
  struct L2L_HIDDEN Implementation;
  explicit LayerBuilder(Implementation& self) : self_(self) {}
  LayerBuilder(const LayerBuilder&) = delete;
  LayerBuilder& operator=(const LayerBuilder&) = delete;

  std::int64_t sequence() const;        // rows of a sequence; of a custom model 1
  std::int64_t rows() const;            // of a microbatch: a whole number of sequences; of a custom model its samples
  std::int64_t columns(Value x) const;  // of a vector: its elements
  std::vector<std::int64_t> shape(Value x) const;

  // Parameters. Matrices are subject to weight decay, vectors are not. What they begin with depends on the order in
  // which they are declared: declare each in a statement of its own, since the order of a call's arguments is the
  // compiler's. Names have letters, digits, '_', '-' and '.', and occur once in a layer. A dimension is 1 to 2^31 - 1,
  // and a parameter has at most 2^34 elements.
  Value matrix(const std::string& name, std::int64_t rows, std::int64_t columns, Distribution initial);
  Value vector(const std::string& name, std::int64_t elements, Distribution initial);
  // Several matrices, by name and rows, as one [all rows, columns]: queries, keys and values in one
  // linear_transposed().
  Value matrices(const std::vector<std::pair<std::string, std::int64_t>>& pieces, std::int64_t columns,
                 Distribution initial);
  // A vector without a gradient, which keeps what a layer measures: each step moves it by `share`, in (0, 1], of the
  // way to the mean of what the step's microbatches measured. For one batch_norm() of this layer. Begins at zeros or
  // ones.
  Value statistic(const std::string& name, std::int64_t elements, Distribution initial, double share = 0.1);

  Value linear(Value x, Value w, std::optional<Value> b = {});             // x w + b, w [columns, out], b [out]
  Value linear_transposed(Value x, Value w, std::optional<Value> b = {});  // x w^T + b, w [out, columns], b [out]
  // (x - mean) / sqrt(variance + epsilon) * gain + bias, over each row.
  Value layer_norm(Value x, Value gain, Value bias, double epsilon = 1e-5);
  Value rms_norm(Value x, Value gain, double epsilon = 1e-5);  // x / sqrt(mean(x^2) + epsilon) * gain, over each row
  Value gelu(Value x, bool exact = true);                      // x Phi(x); else its tanh form
  Value tanh(Value x);
  Value sigmoid(Value x);                        // 1 / (1 + e^-x)
  Value silu(Value x);                           // x / (1 + e^-x)
  Value hard_sigmoid(Value x);                   // min(max(x + 3, 0), 6) / 6
  Value hard_swish(Value x);                     // x hard_sigmoid(x)
  Value relu(Value x);                           // max(x, 0)
  Value gated(Value x, Gate gate = Gate::silu);  // gate(g) * u, of x = [g | u] by columns
  Value softmax(Value x);                        // e^x / sum of e^x, over each row
  Value dropout(Value x, double probability);    // in [0, 1); kept elements are scaled by 1 / (1 - probability)
  // Element by element. Shapes are aligned at the last dimension, and dimensions of 1 and those that are missing are
  // repeated, as in NumPy. Either may be a parameter.
  Value add(Value a, Value b);
  Value subtract(Value a, Value b);
  Value multiply(Value a, Value b);
  // Of a reversible model (model.reversible, docs/models.md). stream() begins a stream with x. couple() gives the sum
  // of a stream and a branch of the same shape. Whatever else reads a stream sees it rounded to precision.compute. A
  // layer whose inputs and results are all streams, and which adds something to each input, rebuilds these from its
  // results, from the last sum to the first. Hence a branch reads parameters, and streams as they are by then, but
  // neither the stream to which it is added nor what another branch has made. streams() and couple() of several take
  // results of one branch. In models that are not reversible: x itself, and add(stream, branch).
  Value stream(Value x) { return streams({x})[0]; }
  Value couple(Value stream, Value branch) { return couple(std::vector{stream}, {branch})[0]; }
  std::vector<Value> streams(const std::vector<Value>& values);
  std::vector<Value> couple(const std::vector<Value>& streams, const std::vector<Value>& branches);
  Value scale(Value x, double factor);
  // The sum, or the mean, over the dimensions that are named (not 0), which become 1.
  Value sum(Value x, const std::vector<int>& dimensions);
  Value mean(Value x, const std::vector<int>& dimensions);

  // The same elements in another shape, that of one sample: dimension 0 stays.
  Value reshape(Value x, const std::vector<std::int64_t>& of_sample);
  Value permute(Value x, const std::vector<int>& axes);  // dimension i becomes what axes[i] was; axes[0] is 0
  Value slice(Value x, int dimension, std::int64_t first, std::int64_t count);  // [first, first + count); not of 0
  Value concatenate(const std::vector<Value>& values, int dimension);           // not along 0

  // Rows of a table [below, columns] by indices: adds a dimension, or replaces a last one of 1. Indices and table must
  // agree in `below`.
  Value lookup(Value indices, Value table);
  // Of each sample, the parts of x [samples, n, ...] that its indices [samples, ...] name, which are below n: their
  // dimensions, then those of a part, at most eight in all. On a GPU the gradient goes through all indices of a sample
  // for each of its n parts.
  Value gather(Value x, Value indices);
  // Of images [samples, height, width, channels], with w [channels out, height x width x channels of the window]: of
  // each place of the window, its rows, columns and channels in that order. With `groups`, each of as many equal parts
  // of the channels out sees its part of the channels alone, and w has the columns of one. As many groups as channels
  // in and out (depthwise) are one op; else each is a product, and copies bring them together, so that many are slow.
  Value convolution(Value x, Value w, std::optional<Value> b, const Window& window, int groups = 1);
  Value max_pool(Value x, const Window& window);      // of what of the window lies in the image
  Value average_pool(Value x, const Window& window);  // over all of the window
  // The image, `factors` times as high and as wide, by bilinear interpolation: PyTorch's, with align_corners = False.
  Value upsample(Value x, std::array<int, 2> factors);
  // As layer_norm, over each of `groups` groups of channels of each sample, the channels being the last dimension (Wu
  // and He, 2018). gain and bias are [channels].
  Value group_norm(Value x, int groups, Value gain, Value bias, double epsilon = 1e-5);
  // (x - mean) / sqrt(variance + epsilon) * gain + bias, for each channel, the last dimension (Ioffe and Szegedy,
  // 2015): in training over all else of the microbatch, on whose size the results therefore depend; in validation and
  // predict() by `mean` and `variance`, two statistic()s of this call alone that keep them (the variance with n - 1),
  // [channels] as gain and bias, begun at zeros() and ones(). group_norm() has neither that dependence nor a second way
  // to compute.
  Value batch_norm(Value x, Value gain, Value bias, Value mean, Value variance, double epsilon = 1e-5);
  // log(sum of e^logit) - the logit of the target, of each row of logits [..., classes], in fp32: [..., 1]. Where the
  // target is -1, 0.
  Value cross_entropy(Value logits, Value targets);
  // x, to whose columns from `first` on factor * y is added.
  Value add_columns(Value x, Value y, std::int64_t first, double factor = 1);
  // Of x = [queries | keys | values] by columns, each of whole heads: softmax(scale q k^T) v, [rows, columns of the
  // queries]. Rows see their own document alone where data.samples = "packed". In a custom model x has three
  // dimensions, of which the second is the sequence.
  Value attention(Value x, const AttentionSettings& settings);
  // Queries and keys of [queries | keys | values], of which the pairs (j, j + d/2) of each head's d elements turn by
  // position * base^(-2j/d) (rotary positions; Su et al., 2021).
  Value rotary(Value x, int heads, int kv_heads = 0, double base = 10000);
  // What `op` makes of each row of x. `parameters`: a vector() that it reads as well.
  Value custom(Value x, std::shared_ptr<const CustomOp> op, std::optional<Value> parameters = {});

 private:
  Value reduced(Value x, const std::vector<int>& dimensions, double factor);
  int sequence_of(const char* op, Value x) const;

  Implementation& self_;
};

// A layer between embedding and head, or of a custom model. Layers of one type are the same graph with parameters of
// their own.
struct Layer {
  // Stable: parameters are named by it ("h.ID.NAME" beside gpt2's embedding), random numbers follow from it, and
  // checkpoints keep what belongs to it. Unique in the model, below 2^31 - 16.
  std::uint32_t id = 0;
  std::string type = {};
  // Describes the layer from its inputs to its outputs; called several times for each layer and length of sequences.
  // What it returns are the inputs of the next layer: any number of values of any shapes, inputs of its own among them,
  // for what later layers read besides, but not these alone. A family's embedding gives one value, [rows,
  // model.hidden], and its head takes one. What is thrown that is no l2l::Error is nested in one that names the layer.
  // Empty: block `id` of model.architecture, and no type.
  using Build = std::function<std::vector<Value>(LayerBuilder& graph, std::span<const Value> inputs)>;
  Build build = nullptr;
  // An earlier layer of the same type, whose parameters this one uses: they are updated once a step, with the gradients
  // of all their uses.
  std::optional<std::uint32_t> shares = {};
};

// Layers that Trainer::set_layers() puts between embedding and head, or before the last layer of a custom model, in
// place of ModelOptions::blocks, which are the list at first. What the longest list needs is reserved from the start,
// so that the memory of a run does not depend on the list. Needs transfer.stash = "host", device.execution = "relay",
// a recompute.policy that is "full", "none", "selective" or "min_cut", transfer.resident_layers not set, and
// optimizer.layer_decay = 1.
struct LayerReserve {
  // Besides those of the list at first. A type that is none of theirs reads what the last layer of that list reads.
  std::vector<Layer> layers = {};
  // Of a list, each use counted; without a custom model's last layer. At least those of the list at first, and as many
  // as there are types of layers.
  std::int64_t most_layers = 0;
  std::int64_t most_uses = 1;  // of one layer in a list
};

// The loss of each sample, from what the last layer of a custom model returns and the targets that samples bring: a
// value of which each sample's elements are summed (take their mean() where that is meant). The minibatch's loss is the
// sum over its samples, divided by the sum of what SampleSource::read() returned for each.
using LossBuilder =
    std::function<Value(LayerBuilder& graph, std::span<const Value> outputs, std::span<const Value> targets)>;

// A target of one sample, [elements]: numbers or indices, as its TensorSpec says; the other is empty.
struct TargetValues {
  std::span<const float> numbers;
  std::span<const std::int32_t> indices;
};

// A metric of a custom model's validation, besides the loss, on the host: sums over all samples in their order, each of
// which is there once whatever it counts for in the loss, and what is made of them. Both functions are pure; what they
// throw ends the validation. One that sleeps for 10 s is a hang (set_hang_handler(), l2l/errors.h).
struct Metric {
  std::string name;  // as Evaluation::metrics and checkpoint.best call it
  int sums = 1;      // 1 to 2^20
  // Adds the part of one sample to `sums`, which begin at 0. `output`: what the last layer returns first, in fp32.
  std::function<void(std::span<const float> output, std::span<const TargetValues> targets, std::span<double> sums)>
      add = nullptr;
  // The higher, the better. Empty: sums[0] / samples.
  std::function<double(std::span<const double> sums, std::uint64_t samples)> value = nullptr;
};

}  // namespace l2l

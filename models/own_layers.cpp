#include "models/own_layers.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "l2l/errors.h"
#include "models/streams.h"

namespace l2l {

using compiler::OpKind;
using compiler::ValueId;
using models::TransformerShape;

namespace models {
namespace {

// `shape` as four dimensions, the missing ones in front.
std::array<std::int64_t, 4> four(const Shape& shape) {
  std::array<std::int64_t, 4> dims{1, 1, 1, 1};
  for (std::size_t i = 0; i < shape.rank(); ++i) dims[4 - shape.rank() + i] = shape[i];
  return dims;
}

}  // namespace
}  // namespace models

// What a value of LayerBuilder stands for: a value of the graph, a matrix, in the shape that the layer sees. Several
// may stand for one.
struct LayerBuilder::Implementation {
  compiler::GraphBuilder& graph;
  models::LayerWeights& weights;
  const TransformerShape& shape;
  std::vector<models::LayerTensor> tensors = {};
  std::vector<ValueId> ids = {};                                      // of each of these
  std::set<std::string> names = {};                                   // of parameters
  std::map<std::pair<ValueId, std::int64_t>, ValueId> reshaped = {};  // by columns

  Value add(ValueId id, models::LayerTensor tensor) {
    tensors.push_back(tensor);
    ids.push_back(id);
    return {static_cast<std::int32_t>(ids.size() - 1)};
  }
  // Of the graph's own shape and dtype.
  Value add(ValueId id) { return add(id, {graph.value(id).shape, graph.value(id).dtype}); }
  // Of the shape of x, but for the columns.
  Value like(Value x, ValueId id) {
    models::LayerTensor tensor = tensors[index(x)];
    const Shape& matrix = graph.value(id).shape;
    tensor.shape = with(tensor.shape, tensor.shape.rank() - 1, matrix[matrix.rank() - 1]);
    tensor.dtype = graph.value(id).dtype;
    return add(id, tensor);
  }
  static Shape with(const Shape& shape, std::size_t dimension, std::int64_t size) {
    Shape changed;
    for (std::size_t i = 0; i < shape.rank(); ++i) changed.push_back(i == dimension ? size : shape[i]);
    return changed;
  }

  void declare(const std::string& name, const Distribution& initial) {
    const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.'; };
    if (name.empty() || !std::ranges::all_of(name, allowed)) {
      throw BadInput("parameter \"" + name + "\": a name has letters, digits, '_', '-' and '.'");
    }
    if (!names.insert(name).second) throw BadInput("parameter " + name + " is declared twice");
    if (!std::isfinite(initial.scale) || initial.scale < 0) {
      throw BadInput("parameter " + name + ": begins with a scale of " + std::to_string(initial.scale) +
                     "; it is 0 or more");
    }
  }
  std::size_t index(Value value) const {
    if (value.id >= 0 && static_cast<std::size_t>(value.id) < ids.size()) return static_cast<std::size_t>(value.id);
    throw BadInput("a value is used that this graph has not made");
  }
  ValueId at(Value value) const { return ids[index(value)]; }
  const models::LayerTensor& tensor(Value value) const { return tensors[index(value)]; }
  bool is_parameter(Value value) const { return graph.value(at(value)).region == compiler::Region::weights; }
  // A value with rows.
  ValueId rows(Value value) const {
    const ValueId id = at(value);
    if (is_parameter(value)) {
      throw BadInput("parameter " + graph.value(id).name + " stands where a value with rows is taken");
    }
    if (graph.value(id).dtype != DType::i32) return id;
    throw BadInput(graph.value(id).name + " are indices, and stand where numbers are taken");
  }
  ValueId parameter(Value value) const {
    if (is_parameter(value)) return at(value);
    throw BadInput(graph.value(at(value)).name + " stands where a parameter is taken");
  }
  std::optional<ValueId> parameter(std::optional<Value> value) const {
    return value ? std::optional(parameter(*value)) : std::nullopt;
  }
  // `dimension` of x, which is not that of samples.
  std::size_t dimension(const char* op, Value x, int dimension) const {
    const std::size_t rank = tensor(x).shape.rank();
    if (dimension >= 1 && static_cast<std::size_t>(dimension) < rank) return static_cast<std::size_t>(dimension);
    throw BadInput(std::string(op) + ": dimension " + std::to_string(dimension) + " of a value " +
                   tensor(x).shape.to_string() + "; it is 1 to " + std::to_string(rank - 1));
  }
  // The matrix `id` in rows of `columns`.
  ValueId in_columns(ValueId id, std::int64_t columns) {
    const Shape& matrix = graph.value(id).shape;
    if (matrix[1] == columns) return id;
    const auto [known, fresh] = reshaped.try_emplace({id, columns});
    if (fresh) known->second = graph.reshape(id, columns);
    return known->second;
  }
  // `x` repeated to `shape`.
  ValueId repeated(Value x, const Shape& shape) {
    const Shape& own = tensor(x).shape;
    if (own == shape && !is_parameter(x)) return rows(x);
    if (is_parameter(x) && own.rank() == shape.rank() && own[0] != 1) {
      throw BadInput("parameter " + graph.value(at(x)).name + " " + own.to_string() +
                     " has elements for each sample of a microbatch " + shape.to_string());
    }
    if (!is_parameter(x)) rows(x);  // which indices have not
    compiler::Attributes attributes{.dims = models::four(shape)};
    for (std::size_t i = 0; i < own.rank(); ++i) {
      const std::size_t place = 4 - own.rank() + i;
      if (own[i] == attributes.dims[place]) attributes.kept |= 1u << place;
    }
    return graph.apply(OpKind::broadcast, {at(x)}, attributes);
  }
  // The shape to which a and b are repeated.
  Shape common(const char* op, Value a, Value b) const {
    const Shape &x = tensor(a).shape, &y = tensor(b).shape;
    const std::size_t rank = std::max(x.rank(), y.rank());
    const auto size = [&](const Shape& shape, std::size_t i) {
      return i + shape.rank() < rank ? 1 : shape[i + shape.rank() - rank];
    };
    Shape all;
    for (std::size_t i = 0; i < rank; ++i) {
      const std::int64_t of_x = size(x, i), of_y = size(y, i);
      if (of_x != of_y && of_x != 1 && of_y != 1) {
        throw BadInput(std::string(op) + ": shapes " + x.to_string() + " and " + y.to_string() + " do not fit");
      }
      all.push_back(std::max(of_x, of_y));
    }
    if (rank < 2) throw BadInput(std::string(op) + ": one of the two must have rows");
    return all;
  }
  Value two(OpKind kind, const char* op, Value a, Value b) {
    const Shape shape = common(op, a, b);
    const ValueId x = repeated(a, shape), y = repeated(b, shape);
    if (graph.value(x).dtype != graph.value(y).dtype) {
      throw BadInput(std::string(op) + ": the result of cross_entropy() is fp32, the other value " +
                     std::string(l2l::name_of(this->shape.compute)) + ": set precision.compute = \"fp32\"");
    }
    return add(graph.apply(kind, {x, y}), {shape, graph.value(x).dtype});
  }
  Value one(OpKind kind, Value x, const compiler::Attributes& attributes = {}) {
    return like(x, graph.apply(kind, {rows(x)}, attributes));
  }
  // The four dimensions of an image.
  const Shape& image(const char* op, Value x) const {
    const Shape& shape = tensor(x).shape;
    if (shape.rank() == 4) return shape;
    throw BadInput(std::string(op) + ": takes [samples, height, width, channels], not " + shape.to_string());
  }
  compiler::Attributes windows(const char* op, Value x, const Window& window) const {
    return {.dims = models::four(image(op, x)),
            .image_window = {window.size, window.stride, window.padding, window.dilation}};
  }
  // What a window of the image x gives, with `id` as its value.
  Value of_windows(Value x, const compiler::Attributes& attributes, ValueId id) {
    Shape shape{attributes.dims[0]};
    for (const std::size_t side : {0u, 1u}) {
      shape.push_back(attributes.image_window.places(side, attributes.dims[1 + side]));
    }
    shape.push_back(graph.value(id).shape[1]);
    return add(id, {shape, tensor(x).dtype});
  }
};

namespace {

Initial initial_of(const Distribution& distribution) {
  switch (distribution.kind) {
    case Distribution::Kind::zeros:
      return Initial::zeros;
    case Distribution::Kind::ones:
      return Initial::ones;
    case Distribution::Kind::normal:
      return Initial::normal;
    case Distribution::Kind::uniform:
      break;
  }
  return Initial::uniform;
}

}  // namespace

std::int64_t LayerBuilder::sequence() const { return self_.shape.sequence; }

std::int64_t LayerBuilder::rows() const { return self_.shape.rows(); }

std::int64_t LayerBuilder::columns(Value x) const {
  const Shape& shape = self_.tensor(x).shape;
  return shape[shape.rank() - 1];
}

std::vector<std::int64_t> LayerBuilder::shape(Value x) const {
  const Shape& shape = self_.tensor(x).shape;
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < shape.rank(); ++i) sizes.push_back(shape[i]);
  return sizes;
}

Value LayerBuilder::matrix(const std::string& name, std::int64_t rows, std::int64_t columns, Distribution initial) {
  return matrices({{name, rows}}, columns, initial);
}

Value LayerBuilder::vector(const std::string& name, std::int64_t elements, Distribution initial) {
  self_.declare(name, initial);
  return self_.add(self_.weights.vector(name, elements, initial_of(initial), static_cast<float>(initial.scale)));
}

Value LayerBuilder::matrices(const std::vector<std::pair<std::string, std::int64_t>>& pieces, std::int64_t columns,
                             Distribution initial) {
  std::vector<models::LayerWeights::Piece> all;
  for (const auto& [name, rows] : pieces) {
    self_.declare(name, initial);
    all.push_back({name, rows});
  }
  return self_.add(self_.weights.joined_matrix(all, columns, initial_of(initial), static_cast<float>(initial.scale)));
}

Value LayerBuilder::linear(Value x, Value w, std::optional<Value> b) {
  return self_.like(x, self_.graph.linear(self_.rows(x), self_.parameter(w), self_.parameter(b)));
}

Value LayerBuilder::linear_transposed(Value x, Value w, std::optional<Value> b) {
  return self_.like(x, self_.graph.linear_transposed(self_.rows(x), self_.parameter(w), self_.parameter(b)));
}

Value LayerBuilder::layer_norm(Value x, Value gain, Value bias, double epsilon) {
  return self_.like(x, self_.graph.layer_norm(self_.rows(x), self_.parameter(gain), self_.parameter(bias),
                                              static_cast<float>(epsilon)));
}

Value LayerBuilder::rms_norm(Value x, Value gain, double epsilon) {
  return self_.like(x, self_.graph.rms_norm(self_.rows(x), self_.parameter(gain), static_cast<float>(epsilon)));
}

Value LayerBuilder::group_norm(Value x, int groups, Value gain, Value bias, double epsilon) {
  const Shape& shape = self_.tensor(x).shape;
  compiler::Attributes attributes{.epsilon = static_cast<float>(epsilon), .groups = groups};
  const std::int64_t channels = columns(x);
  attributes.dims = {shape[0], shape.elements() / (shape[0] * channels), 1, channels};
  return self_.like(x, self_.graph.apply(OpKind::group_norm,
                                         {self_.rows(x), self_.parameter(gain), self_.parameter(bias)}, attributes));
}

Value LayerBuilder::gelu(Value x, bool exact) { return self_.like(x, self_.graph.gelu(self_.rows(x), exact)); }

Value LayerBuilder::tanh(Value x) { return self_.one(OpKind::tanh, x); }

Value LayerBuilder::sigmoid(Value x) { return self_.one(OpKind::sigmoid, x); }

Value LayerBuilder::silu(Value x) { return self_.one(OpKind::silu, x); }

Value LayerBuilder::relu(Value x) { return self_.one(OpKind::relu, x); }

Value LayerBuilder::softmax(Value x) { return self_.one(OpKind::softmax, x); }

Value LayerBuilder::gated(Value x, Gate gate) {
  return self_.like(x, self_.graph.swiglu(self_.rows(x), {.exact = gate == Gate::gelu, .gelu = gate != Gate::silu}));
}

Value LayerBuilder::dropout(Value x, double probability) {
  return self_.like(x, self_.graph.dropout(self_.rows(x), static_cast<float>(probability)));
}

Value LayerBuilder::add(Value a, Value b) { return self_.two(OpKind::add, "add", a, b); }

Value LayerBuilder::subtract(Value a, Value b) {
  if (!self_.is_parameter(b)) return add(a, scale(b, -1));
  const Shape shape = self_.common("subtract", a, b);
  return add(a, scale(self_.add(self_.repeated(b, shape), {shape, self_.shape.compute}), -1));
}

Value LayerBuilder::multiply(Value a, Value b) { return self_.two(OpKind::multiply, "multiply", a, b); }

Value LayerBuilder::scale(Value x, double factor) {
  if (!std::isfinite(factor)) throw BadInput("scale: a factor of " + std::to_string(factor));
  return self_.like(x, self_.graph.scale(self_.rows(x), static_cast<float>(factor)));
}

Value LayerBuilder::sum(Value x, const std::vector<int>& dimensions) { return reduced(x, dimensions, 1); }

Value LayerBuilder::mean(Value x, const std::vector<int>& dimensions) {
  double elements = 1;
  for (const int each : dimensions)
    elements *= static_cast<double>(self_.tensor(x).shape[self_.dimension("mean", x, each)]);
  return reduced(x, dimensions, 1 / elements);
}

Value LayerBuilder::reduced(Value x, const std::vector<int>& dimensions, double factor) {
  Shape shape = self_.tensor(x).shape;
  compiler::Attributes attributes{.factor = static_cast<float>(factor), .dims = models::four(shape), .kept = 0xf};
  for (const int each : dimensions) {
    const std::size_t dimension = self_.dimension("sum", x, each);
    const std::uint32_t bit = 1u << (4 - shape.rank() + dimension);
    if ((attributes.kept & bit) == 0) throw BadInput("sum: dimension " + std::to_string(each) + " is named twice");
    attributes.kept &= ~bit;
    shape = self_.with(shape, dimension, 1);
  }
  return self_.add(self_.graph.apply(OpKind::sum, {self_.rows(x)}, attributes), {shape, self_.tensor(x).dtype});
}

Value LayerBuilder::reshape(Value x, const std::vector<std::int64_t>& of_sample) {
  const models::LayerTensor& tensor = self_.tensor(x);
  Shape shape{tensor.shape[0]};
  for (const std::int64_t size : of_sample) shape.push_back(size);
  if (shape.rank() < 2 || shape.elements() != tensor.shape.elements()) {
    throw BadInput("reshape: " + tensor.shape.to_string() + " has other elements than " + shape.to_string());
  }
  const models::LayerTensor result{shape, tensor.dtype, tensor.below};
  if (tensor.dtype == DType::i32) return self_.add(self_.at(x), result);
  return self_.add(self_.in_columns(self_.rows(x), shape[shape.rank() - 1]), result);
}

Value LayerBuilder::permute(Value x, const std::vector<int>& axes) {
  const Shape& shape = self_.tensor(x).shape;
  const std::size_t rank = shape.rank(), missing = 4 - rank;
  std::set<int> different(axes.begin(), axes.end());
  if (axes.size() != rank || different.size() != rank || axes[0] != 0 ||
      *different.rbegin() != static_cast<int>(rank) - 1) {
    throw BadInput("permute: axes of " + shape.to_string() + " are 0, and then the others in any order");
  }
  compiler::Attributes attributes{.dims = models::four(shape)};
  Shape result;
  for (std::size_t i = 0; i < rank; ++i) {
    attributes.axes[missing + i] = static_cast<std::uint8_t>(missing + static_cast<std::size_t>(axes[i]));
    result.push_back(shape[static_cast<std::size_t>(axes[i])]);
  }
  return self_.add(self_.graph.apply(OpKind::permute, {self_.rows(x)}, attributes), {result, self_.tensor(x).dtype});
}

// As columns of the matrix in which all from `dimension` on lie in a row.
Value LayerBuilder::slice(Value x, int dimension, std::int64_t first, std::int64_t count) {
  const Shape shape = self_.tensor(x).shape;
  const std::size_t at = self_.dimension("slice", x, dimension);
  if (first < 0 || count < 1 || first > shape[at] - count) {
    throw BadInput("slice: " + std::to_string(count) + " from " + std::to_string(first) + " on of dimension " +
                   std::to_string(dimension) + " of " + shape.to_string());
  }
  std::int64_t inner = 1;
  for (std::size_t i = at + 1; i < shape.rank(); ++i) inner *= shape[i];
  const ValueId rows = self_.in_columns(self_.rows(x), shape[at] * inner);
  const ValueId part = self_.graph.apply(OpKind::columns, {rows}, {.first = first * inner, .columns = count * inner});
  const Shape result = self_.with(shape, at, count);
  return self_.add(self_.in_columns(part, result[result.rank() - 1]), {result, self_.tensor(x).dtype});
}

// Each into its columns, the first with zeros beside it, of the matrix in which all from `dimension` on lie in a row.
Value LayerBuilder::concatenate(const std::vector<Value>& values, int dimension) {
  if (values.empty()) throw BadInput("concatenate: takes one value or more");
  const Shape shape = self_.tensor(values[0]).shape;
  const std::size_t at = self_.dimension("concatenate", values[0], dimension);
  std::int64_t inner = 1, size = 0;
  for (std::size_t i = at + 1; i < shape.rank(); ++i) inner *= shape[i];
  for (const Value value : values) {
    const Shape& other = self_.tensor(value).shape;
    if (other.rank() != shape.rank() || self_.with(other, at, shape[at]) != shape) {
      throw BadInput("concatenate: " + other.to_string() + " does not fit " + shape.to_string());
    }
    size += other[at];
  }
  std::int64_t first = 0;
  std::optional<ValueId> all;
  for (const Value value : values) {
    const std::int64_t count = self_.tensor(value).shape[at] * inner;
    const ValueId part = self_.in_columns(self_.rows(value), count);
    if (values.size() == 1) return value;
    all = all ? self_.graph.add_columns(*all, part, first, 1)
              : self_.graph.apply(OpKind::pad_columns, {part}, {.first = 0, .columns = size * inner});
    first += count;
  }
  const Shape result = self_.with(shape, at, size);
  return self_.add(self_.in_columns(*all, result[result.rank() - 1]), {result, self_.tensor(values[0]).dtype});
}

Value LayerBuilder::lookup(Value indices, Value table) {
  const models::LayerTensor& of = self_.tensor(indices);
  const std::string name = self_.graph.value(self_.at(indices)).name;
  if (of.dtype != DType::i32) throw BadInput("lookup: " + name + " are numbers, and no indices");
  const ValueId rows = self_.parameter(table);
  const Shape& matrix = self_.graph.value(rows).shape;
  if (matrix.rank() != 2 || matrix[0] != of.below) {
    throw BadInput("lookup: a table " + matrix.to_string() + " for indices below " + std::to_string(of.below) + " (" +
                   name + ")");
  }
  Shape shape = of.shape;
  if (shape[shape.rank() - 1] == 1 && shape.rank() > 1) {
    shape = self_.with(shape, shape.rank() - 1, matrix[1]);
  } else {
    shape.push_back(matrix[1]);
  }
  return self_.add(self_.graph.apply(OpKind::lookup, {self_.at(indices), rows}), {shape, self_.shape.compute});
}

Value LayerBuilder::convolution(Value x, Value w, std::optional<Value> b, const Window& window) {
  const compiler::Attributes attributes = self_.windows("convolution", x, window);
  const ValueId covered = self_.graph.apply(OpKind::unfold, {self_.rows(x)}, attributes);
  return self_.of_windows(x, attributes,
                          self_.graph.linear_transposed(covered, self_.parameter(w), self_.parameter(b)));
}

Value LayerBuilder::max_pool(Value x, const Window& window) {
  const compiler::Attributes attributes = self_.windows("max_pool", x, window);
  return self_.of_windows(x, attributes, self_.graph.apply(OpKind::max_pool, {self_.rows(x)}, attributes));
}

Value LayerBuilder::average_pool(Value x, const Window& window) {
  const compiler::Attributes attributes = self_.windows("average_pool", x, window);
  return self_.of_windows(x, attributes, self_.graph.apply(OpKind::average_pool, {self_.rows(x)}, attributes));
}

Value LayerBuilder::cross_entropy(Value logits, Value targets) {
  const models::LayerTensor& of = self_.tensor(targets);
  if (of.dtype != DType::i32) throw BadInput("cross_entropy: targets are indices, TensorSpec::Element::i32");
  if (of.below != columns(logits)) {
    throw BadInput("cross_entropy: " + std::to_string(columns(logits)) + " logits for targets below " +
                   std::to_string(of.below));
  }
  return self_.like(logits, self_.graph.apply(OpKind::row_cross_entropy, {self_.rows(logits), self_.at(targets)}));
}

Value LayerBuilder::add_columns(Value x, Value y, std::int64_t first, double factor) {
  return self_.like(x, self_.graph.add_columns(self_.rows(x), self_.rows(y), first, static_cast<float>(factor)));
}

// Rows of a sequence: of a value of three dimensions the second.
int LayerBuilder::sequence_of(const char* op, Value x) const {
  if (self_.shape.head_kind != models::HeadKind::custom) return static_cast<int>(sequence());
  const Shape& shape = self_.tensor(x).shape;
  if (shape.rank() == 3) return static_cast<int>(shape[1]);
  throw BadInput(std::string(op) + ": takes [samples, sequence, columns], not " + shape.to_string());
}

Value LayerBuilder::attention(Value x, const AttentionSettings& settings) {
  if (!settings.causal && self_.shape.cache > 0) {
    throw BadInput("attention that is not causal continues no text with a cache of keys and values");
  }
  const compiler::Attributes attributes{.probability = static_cast<float>(settings.dropout),
                                        .heads = settings.heads,
                                        .kv_heads = settings.kv_heads,
                                        .causal = settings.causal,
                                        .window = settings.window,
                                        .scale = static_cast<float>(settings.scale),
                                        .softcap = static_cast<float>(settings.softcap),
                                        .sequence = sequence_of("attention", x)};
  return self_.like(x, models::attend(self_.graph, self_.shape, self_.rows(x), attributes));
}

Value LayerBuilder::rotary(Value x, int heads, int kv_heads, double base) {
  const compiler::Attributes attributes{.heads = heads,
                                        .kv_heads = kv_heads,
                                        .sequence = sequence_of("rotary", x),
                                        .positions = self_.shape.cache > 0 ? static_cast<int>(self_.shape.context) : 0,
                                        .rotary_base = static_cast<float>(base)};
  return self_.like(x, self_.graph.rotary(self_.rows(x), attributes,
                                          models::read_rows(self_.graph, self_.shape, compiler::RowField::position)));
}

namespace models {

Shape LayerTensor::matrix() const {
  if (dtype == DType::i32) return {shape.elements()};
  const std::int64_t columns = shape[shape.rank() - 1];
  return {shape.elements() / columns, columns};
}

namespace {

Bytes next_place(Bytes end) { return align_up(end, 64); }

std::string name_of(const Layer& layer) {
  return "layer " + std::to_string(layer.id) + (layer.type.empty() ? "" : " (" + layer.type + ")");
}

// What a layer or a loss throws, with its name.
template <typename Build>
void with_name(const std::string& name, const Build& build) {
  try {
    build();
  } catch (const BadInput& error) {
    throw BadInput(name + ": " + error.what());
  }
}

// The layer's ops, and its results as values that can be placed.
std::vector<Value> build(const Layer& layer, LayerBuilder::Implementation& self, const LayerEnds& inputs) {
  std::vector<Value> read;
  Bytes place = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = "x" + (inputs.size() > 1 ? std::to_string(i) : "");
    const ValueId id = self.graph.bound(compiler::Region::input, name, inputs[i].dtype, inputs[i].matrix(), place);
    read.push_back(self.add(id, inputs[i]));
    place = next_place(place + inputs[i].bytes());
  }
  LayerBuilder builder(self);
  std::vector<Value> outputs = layer.build(builder, read);
  if (outputs.empty()) throw BadInput("returns no value");
  const auto made = [&](Value value) { return self.graph.value(self.at(value)).region == compiler::Region::scratch; };
  for (const Value value : outputs) {
    if (self.is_parameter(value)) throw BadInput("returns a parameter");
  }
  if (std::ranges::none_of(outputs, made)) throw BadInput("returns its inputs unchanged; leave the layer out");
  // What it passes on, or returns twice, is copied.
  std::set<ValueId> seen;
  for (Value& value : outputs) {
    if (made(value) && seen.insert(self.at(value)).second) continue;
    value = self.add(self.graph.reshape(self.at(value), 0), self.tensor(value));
  }
  return outputs;
}

// A layer whose gradient of an input is never written would leave that of another layer there.
void check_inputs_are_read(const compiler::Graph& graph) {
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const compiler::Value& value = graph.values[i];
    if (value.region != compiler::Region::input || value.dtype == DType::i32) continue;
    const auto reads = [&](const compiler::Op& op) {
      return std::ranges::count(op.inputs, static_cast<ValueId>(i)) > 0;
    };
    if (std::ranges::any_of(graph.ops, reads)) continue;
    throw BadInput("does not read its input " + value.name + " " + value.shape.to_string() +
                   "; the layer before must not return it");
  }
}

// Values of targets or inputs, which lie one behind the other, four bytes an element.
LayerEnds read_samples(compiler::GraphBuilder& graph, compiler::Region region, const std::vector<TensorSpec>& specs,
                       const TransformerShape& shape, std::vector<ValueId>& ids) {
  LayerEnds ends;
  Bytes place = 0;
  for (const TensorSpec& spec : specs) {
    LayerTensor tensor{{shape.rows()}, DType::f32, spec.below};
    for (const std::int64_t size : spec.shape) tensor.shape.push_back(size);
    if (spec.shape.empty()) tensor.shape.push_back(1);
    if (spec.element == TensorSpec::Element::i32) tensor.dtype = DType::i32;
    ids.push_back(graph.bound(region, spec.name, tensor.dtype, tensor.matrix(), place));
    place = next_place(place + tensor.bytes());
    if (tensor.dtype == DType::f32) tensor.dtype = shape.compute;
    ends.push_back(tensor);
  }
  return ends;
}

}  // namespace

Bytes bytes_of(const LayerEnds& ends) {
  Bytes bytes = 0;
  for (const LayerTensor& tensor : ends) bytes = next_place(bytes) + tensor.bytes();
  return bytes;
}

LayerEnds family_ends(const TransformerShape& shape) { return {{{shape.rows(), shape.hidden}, shape.compute}}; }

LayerEnds input_ends(const TransformerShape& shape) {
  compiler::GraphBuilder graph("inputs");
  std::vector<ValueId> ids;
  return read_samples(graph, compiler::Region::tokens, shape.inputs, shape, ids);
}

compiler::Graph inputs_graph(const TransformerShape& shape) {
  compiler::GraphBuilder graph("inputs");
  std::vector<ValueId> ids;
  const LayerEnds ends = read_samples(graph, compiler::Region::tokens, shape.inputs, shape, ids);
  Bytes place = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool converts = graph.value(ids[i]).dtype != ends[i].dtype;
    graph.place(converts ? graph.read_stream(ids[i], shape.compute) : graph.reshape(ids[i], 0),
                compiler::Region::output, place);
    place = next_place(place + ends[i].bytes());
  }
  return graph.finish();
}

compiler::Graph layer_graph_of(const Layer& layer, const char* name, const TransformerShape& shape,
                               const LayerEnds& inputs, LayerEnds& outputs, ParameterList& list) {
  compiler::GraphBuilder graph(name);
  LayerWeights weights(graph, list, shape.compute);
  LayerBuilder::Implementation self{graph, weights, shape};
  compiler::Graph result;
  with_name("model.blocks: " + name_of(layer), [&] {
    Bytes place = 0;
    for (const Value value : build(layer, self, inputs)) {
      const LayerTensor& tensor = self.tensor(value);
      graph.place(self.at(value), compiler::Region::output, place);
      place = next_place(place + tensor.bytes());
      outputs.push_back(tensor);
    }
    result = graph.finish();
    check_inputs_are_read(result);
  });
  return result;
}

compiler::Graph custom_head_graph(const Layer& layer, const TransformerShape& shape, const LayerEnds& inputs,
                                  CustomHead kind, ParameterList& list, std::int64_t& outputs) {
  compiler::GraphBuilder graph("head");
  LayerWeights weights(graph, list, shape.compute);
  LayerBuilder::Implementation self{graph, weights, shape};
  std::vector<Value> results;
  with_name("model.blocks: " + name_of(layer), [&] { results = build(layer, self, inputs); });
  std::vector<ValueId> ids;
  const LayerEnds ends = read_samples(graph, compiler::Region::targets, shape.targets, shape, ids);
  std::vector<Value> targets;
  Bytes place = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool converts = graph.value(ids[i]).dtype != ends[i].dtype;
    targets.push_back(self.add(converts ? graph.read_stream(ids[i], shape.compute) : ids[i], ends[i]));
    place = next_place(place + graph.value(ids[i]).bytes());
  }
  const ValueId counts = graph.bound(compiler::Region::targets, "counts", DType::i32, {shape.rows()}, place);
  compiler::Graph result;
  with_name("model.loss", [&] {
    LayerBuilder builder(self);
    const Value loss = shape.loss(builder, results, targets);
    ValueId parts = self.in_columns(self.rows(loss), self.tensor(loss).shape.elements() / shape.rows());
    const std::int64_t each = graph.value(parts).shape[1];
    if (self.tensor(loss).shape[0] != shape.rows()) {
      throw BadInput("returns " + self.tensor(loss).shape.to_string() + "; its first dimension is the sample");
    }
    if (each > 1) parts = graph.apply(OpKind::sum, {parts}, {.dims = {1, 1, shape.rows(), each}, .kept = 0x7});
    const compiler::Region made = graph.value(parts).region;
    if (made != compiler::Region::scratch) throw BadInput("returns an input or a target");
    graph.place(graph.apply(OpKind::sample_loss, {parts, counts}), compiler::Region::loss);
    outputs = self.tensor(results[0]).shape.elements() / shape.rows();
    if (self.tensor(results[0]).dtype == DType::i32) throw BadInput("the last layer's first result are indices");
    if (kind == CustomHead::evaluation) {
      graph.place(graph.value(self.at(results[0])).dtype == shape.compute
                      ? self.at(results[0])
                      : throw BadInput("the last layer's first result is not in precision.compute"),
                  compiler::Region::output);
    }
    result = graph.finish();
  });
  with_name("model.blocks: " + name_of(layer), [&] { check_inputs_are_read(result); });
  return result;
}

void check_same_parameters(const ModelLayout& layout, const ModelLayout& other) {
  const auto alike = [](const ParameterSpec& a, const ParameterSpec& b) {
    return a.name == b.name && a.shape == b.shape && a.offset == b.offset;
  };
  const auto same = [&](const GroupSpec& a, const GroupSpec& b) {
    return std::ranges::equal(a.parameters, b.parameters, alike);
  };
  if (std::ranges::equal(layout.groups, other.groups, same)) return;
  throw BadInput(
      "model.blocks: parameters differ with the length of sequences; their sizes may not follow from "
      "LayerBuilder::sequence() or rows()");
}

namespace {

void check_tensors(const std::vector<TensorSpec>& specs, const std::string& key) {
  std::set<std::string> names;
  for (const TensorSpec& spec : specs) {
    const std::string where = key + ": tensor \"" + spec.name + "\"";
    if (spec.name.empty() || !names.insert(spec.name).second) throw BadInput(where + ": needs a name of its own");
    if (spec.shape.size() > 3) throw BadInput(where + ": has more than three dimensions");
    for (const std::int64_t size : spec.shape) {
      if (size < 1) throw BadInput(where + ": a dimension of " + std::to_string(size) + "; it is 1 or more");
    }
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    const bool indices = spec.element == TensorSpec::Element::i32;
    if (indices && (spec.below < 1 || spec.below >= kMost)) {
      throw BadInput(where + ": indices need `below`, 1 to 2^31 - 1; it is " + std::to_string(spec.below));
    }
    if (!indices && spec.below != 0) throw BadInput(where + ": `below` is for indices");
  }
}

}  // namespace

void check_custom(const ModelOptions& model) {
  const std::string custom = "model.architecture = \"custom\"";
  if (model.blocks.size() < 2) {
    throw BadInput(custom + ": model.blocks lists " + std::to_string(model.blocks.size()) +
                   " layers of a program (l2l/graph.h); it takes two or more");
  }
  for (const Layer& layer : model.blocks) {
    if (layer.build) continue;
    throw BadInput(custom + ": layer " + std::to_string(layer.id) + " of model.blocks has nothing that builds it");
  }
  const Layer& last = model.blocks.back();
  const auto alike = [&](const Layer& layer) { return layer.type == last.type || layer.shares == last.id; };
  if (last.shares || std::count_if(model.blocks.begin(), model.blocks.end(), alike) > 1) {
    throw BadInput(custom +
                   ": the last layer of model.blocks, which the loss follows, needs a type and parameters of its own");
  }
  if (model.inputs.empty()) throw BadInput(custom + ": model.inputs: names no tensor");
  if (!model.loss) throw BadInput(custom + ": model.loss: is not set");
  check_tensors(model.inputs, "model.inputs");
  check_tensors(model.targets, "model.targets");
}

void check_layers(const std::vector<Layer>& layers) {
  constexpr std::uint32_t kMostIds = std::uint32_t{1} << 31;
  std::set<std::uint32_t> ids;
  std::map<std::uint32_t, std::string> owners;  // types of layers that share with no other
  for (const Layer& layer : layers) {
    const std::string where = "model.blocks: " + name_of(layer);
    if (layer.id >= kMostIds) throw BadInput(where + ": its id must be below 2^31");
    if (!ids.insert(layer.id).second) throw BadInput(where + ": another layer has the same id");
    if (!layer.build != layer.type.empty()) {
      throw BadInput(where + (layer.type.empty() ? ": has no type" : ": has a type, but nothing that builds it"));
    }
    if (!layer.shares) {
      owners.emplace(layer.id, layer.type);
      continue;
    }
    const auto owner = owners.find(*layer.shares);
    if (owner == owners.end() || owner->second != layer.type) {
      throw BadInput(where + ": shares the parameters of layer " + std::to_string(*layer.shares) +
                     ", which is no earlier layer of its type with parameters of its own");
    }
  }
}

}  // namespace models
}  // namespace l2l

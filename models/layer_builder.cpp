#include "models/layer_builder.h"

#include <limits>

#include "models/streams.h"

namespace l2l {

using compiler::OpKind;
using compiler::ValueId;

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
  self_.declare(name, {elements}, initial);
  return self_.add(self_.weights.vector(name, elements, initial_of(initial), static_cast<float>(initial.scale)));
}

Value LayerBuilder::matrices(const std::vector<std::pair<std::string, std::int64_t>>& pieces, std::int64_t columns,
                             Distribution initial) {
  std::vector<models::LayerWeights::Piece> all;
  std::string names;
  std::int64_t all_rows = 0;
  for (const auto& [name, rows] : pieces) {
    self_.declare(name, {rows, columns}, initial);
    all.push_back({name, rows});
    names += (names.empty() ? "" : ", ") + name;
    all_rows += rows;
  }
  self_.require_dimension("parameters " + names, all_rows);
  return self_.add(self_.weights.joined_matrix(all, columns, initial_of(initial), static_cast<float>(initial.scale)));
}

Value LayerBuilder::statistic(const std::string& name, std::int64_t elements, Distribution initial, double share) {
  self_.declare(name, {elements}, initial);
  if (!(share > 0 && share <= 1)) throw BadInput("statistic " + name + ": a share of " + std::to_string(share));
  if (initial.kind != Distribution::Kind::zeros && initial.kind != Distribution::Kind::ones) {
    throw BadInput("statistic " + name + ": begins at zeros or ones");
  }
  const ValueId id = self_.weights.statistic(name, elements, initial_of(initial), static_cast<float>(share));
  self_.statistics[id] = {initial.kind};
  return self_.add(id);
}

Value LayerBuilder::linear(Value x, Value w, std::optional<Value> b) {
  const ValueId rows = self_.rows(x), weight = self_.parameter(w);
  const std::optional<ValueId> bias = self_.parameter(b);
  self_.require_weight("linear", columns(x), w, b, false);
  return self_.like(x, self_.graph.linear(rows, weight, bias));
}

Value LayerBuilder::linear_transposed(Value x, Value w, std::optional<Value> b) {
  const ValueId rows = self_.rows(x), weight = self_.parameter(w);
  const std::optional<ValueId> bias = self_.parameter(b);
  self_.require_weight("linear_transposed", columns(x), w, b, true);
  return self_.like(x, self_.graph.linear_transposed(rows, weight, bias));
}

Value LayerBuilder::layer_norm(Value x, Value gain, Value bias, double epsilon) {
  self_.require_two("layer_norm", gain, bias);
  return self_.like(x, self_.graph.layer_norm(self_.rows(x), self_.parameter(gain), self_.parameter(bias),
                                              static_cast<float>(epsilon)));
}

Value LayerBuilder::rms_norm(Value x, Value gain, double epsilon) {
  return self_.like(x, self_.graph.rms_norm(self_.rows(x), self_.parameter(gain), static_cast<float>(epsilon)));
}

Value LayerBuilder::group_norm(Value x, int groups, Value gain, Value bias, double epsilon) {
  self_.require_two("group_norm", gain, bias);
  const Shape& shape = self_.tensor(x).shape;
  compiler::Attributes attributes{.epsilon = static_cast<float>(epsilon), .groups = groups};
  const std::int64_t channels = columns(x);
  attributes.dims = {shape[0], shape.elements() / (shape[0] * channels), 1, channels};
  return self_.like(x, self_.graph.apply(OpKind::group_norm,
                                         {self_.rows(x), self_.parameter(gain), self_.parameter(bias)}, attributes));
}

Value LayerBuilder::batch_norm(Value x, Value gain, Value bias, Value mean, Value variance, double epsilon) {
  self_.require_two("batch_norm", gain, bias);
  const ValueId rows = self_.rows(x), its_gain = self_.parameter(gain), its_bias = self_.parameter(bias);
  const ValueId running_mean = self_.take_statistic(mean, Distribution::Kind::zeros);
  const ValueId running_variance = self_.take_statistic(variance, Distribution::Kind::ones);
  compiler::Attributes attributes{.epsilon = static_cast<float>(epsilon), .groups = static_cast<int>(columns(x))};
  attributes.dims = {1, self_.tensor(x).shape.elements() / columns(x), 1, columns(x)};
  return self_.like(
      x, self_.graph.apply(OpKind::batch_norm, {rows, its_gain, its_bias, running_mean, running_variance}, attributes));
}

Value LayerBuilder::custom(Value x, std::shared_ptr<const CustomOp> op, std::optional<Value> parameters) {
  if (!op) throw BadInput("custom: there is no op");
  const std::string what = "custom op \"" + op->name + "\": ";
  if (op->name.empty() || op->name.find(' ') != std::string::npos || op->version.empty()) {
    throw BadInput(what + "it needs a name without spaces and a version");
  }
  if (!op->forward || !op->backward) throw BadInput(what + "forward or backward is missing");
  std::vector<ValueId> inputs{self_.rows(x)};
  if (parameters) inputs.push_back(self_.parameter(*parameters));
  const std::int64_t given = columns(x);
  compiler::Attributes attributes{.columns = op->result_columns ? op->result_columns(given) : given};
  if (attributes.columns < 1 || attributes.columns > self_.kMaxDimension) {
    throw BadInput(what + "makes " + std::to_string(attributes.columns) + " columns; they are 1 to " +
                   std::to_string(self_.kMaxDimension));
  }
  if (op->draws) attributes.rng_op = self_.graph.next_rng_op();
  attributes.custom = {std::move(op)};
  return self_.like(x, self_.graph.apply(OpKind::custom, std::move(inputs), attributes));
}

Value LayerBuilder::gelu(Value x, bool exact) { return self_.like(x, self_.graph.gelu(self_.rows(x), exact)); }

Value LayerBuilder::tanh(Value x) { return self_.one(OpKind::tanh, x); }

Value LayerBuilder::sigmoid(Value x) { return self_.one(OpKind::sigmoid, x); }

Value LayerBuilder::silu(Value x) { return self_.one(OpKind::silu, x); }

Value LayerBuilder::hard_sigmoid(Value x) { return self_.one(OpKind::hard_sigmoid, x); }

Value LayerBuilder::hard_swish(Value x) { return self_.one(OpKind::hard_swish, x); }

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

std::vector<Value> LayerBuilder::streams(const std::vector<Value>& values) {
  std::vector<ValueId> rows;
  for (const Value value : values) rows.push_back(self_.rows(value));
  if (!self_.shape.streams()) return values;
  self_.end_branch();
  std::vector<Value> begun;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ValueId stream = self_.graph.begin_stream(rows[i], self_.shape.stream_type());
    begun.push_back(self_.add(stream, self_.as_stream(values[i])));
  }
  return begun;
}

std::vector<Value> LayerBuilder::couple(const std::vector<Value>& streams, const std::vector<Value>& branches) {
  if (streams.size() != branches.size()) throw BadInput("couple: takes a branch for each stream");
  std::vector<ValueId> rows;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const Shape &stream = self_.tensor(streams[i]).shape, &branch = self_.tensor(branches[i]).shape;
    if (stream != branch) {
      throw BadInput("couple: a branch " + branch.to_string() + " for a stream " + stream.to_string());
    }
    rows.push_back(self_.rows(branches[i]));
  }
  std::vector<Value> sums;
  if (!self_.shape.streams()) {
    for (std::size_t i = 0; i < streams.size(); ++i) sums.push_back(add(streams[i], branches[i]));
    return sums;
  }
  self_.end_branch();
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const ValueId stream = self_.at(streams[i]);
    if (!self_.tensor(streams[i]).stream) {
      throw BadInput("couple: " + self_.graph.value(stream).name + " is no stream()");
    }
    sums.push_back(self_.add(self_.graph.reversible_add(stream, rows[i]), self_.as_stream(streams[i])));
  }
  return sums;
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
  const Shape shape = self_.tensor(x).shape;
  Shape result = shape;
  std::vector<bool> summed(shape.rank());
  for (const int each : dimensions) {
    const std::size_t dimension = self_.dimension("sum", x, each);
    if (summed[dimension]) throw BadInput("sum: dimension " + std::to_string(each) + " is named twice");
    summed[dimension] = true;
    result = self_.with(result, dimension, 1);
  }
  const ValueId id = models::sum(self_.graph, self_.rows(x), shape, summed, static_cast<float>(factor));
  return self_.add(id, {result, self_.type_of(x)});
}

Value LayerBuilder::reshape(Value x, const std::vector<std::int64_t>& of_sample) {
  const models::LayerTensor& tensor = self_.tensor(x);
  Shape shape{tensor.shape[0]};
  for (const std::int64_t size : of_sample) {
    if (size < 1) throw BadInput("reshape: a dimension of " + std::to_string(size) + "; none follows from the others");
    shape.push_back(size);
  }
  if (shape.rank() < 2 || shape.elements() != tensor.shape.elements()) {
    throw BadInput("reshape: " + tensor.shape.to_string() + " has other elements than " + shape.to_string());
  }
  const models::LayerTensor result{shape, self_.type_of(x), tensor.below};
  if (result.dtype == DType::i32) return self_.add(self_.at(x), result);
  return self_.add(self_.in_columns(self_.rows(x), shape[shape.rank() - 1]), result);
}

Value LayerBuilder::permute(Value x, const std::vector<int>& axes) {
  const Shape shape = self_.tensor(x).shape;
  const std::size_t rank = shape.rank();
  std::set<int> different(axes.begin(), axes.end());
  if (axes.size() != rank || different.size() != rank || axes[0] != 0 ||
      *different.rbegin() != static_cast<int>(rank) - 1) {
    throw BadInput("permute: axes of " + shape.to_string() + " are 0, and then the others in any order");
  }
  Shape result;
  for (const int axis : axes) result.push_back(shape[static_cast<std::size_t>(axis)]);
  return self_.add(models::permute(self_.graph, self_.rows(x), shape, axes), {result, self_.type_of(x)});
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
  const ValueId part = self_.columns_of(rows, first * inner, count * inner);
  const Shape result = self_.with(shape, at, count);
  return self_.add(self_.in_columns(part, result[result.rank() - 1]), {result, self_.type_of(x)});
}

// As columns of the matrices in which all from `dimension` on lie in a row.
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
  std::vector<ValueId> parts;
  for (const Value value : values) {
    parts.push_back(self_.in_columns(self_.rows(value), self_.tensor(value).shape[at] * inner));
  }
  if (values.size() == 1) return values[0];
  const Shape result = self_.with(shape, at, size);
  return self_.add(self_.in_columns(self_.side_by_side(parts), result[result.rank() - 1]),
                   {result, self_.type_of(values[0])});
}

Value LayerBuilder::lookup(Value indices, Value table) {
  const ValueId named = self_.indices("lookup", indices);
  const models::LayerTensor& of = self_.tensor(indices);
  const ValueId rows = self_.parameter(table);
  const Shape& matrix = self_.graph.value(rows).shape;
  if (matrix.rank() != 2 || matrix[0] != of.below) {
    throw BadInput("lookup: a table " + matrix.to_string() + " for indices below " + std::to_string(of.below) + " (" +
                   self_.graph.value(named).name + ")");
  }
  Shape shape = of.shape;
  if (shape[shape.rank() - 1] == 1 && shape.rank() > 1) {
    shape = self_.with(shape, shape.rank() - 1, matrix[1]);
  } else {
    shape.push_back(matrix[1]);
  }
  return self_.add(self_.graph.apply(OpKind::lookup, {named, rows}), {shape, self_.shape.compute});
}

Value LayerBuilder::gather(Value x, Value indices) {
  const ValueId all = self_.rows(x), named = self_.indices("gather", indices);
  const Shape& shape = self_.tensor(x).shape;
  const models::LayerTensor& of = self_.tensor(indices);
  if (of.below != shape[1]) {
    throw BadInput("gather: indices below " + std::to_string(of.below) + " (" + self_.graph.value(named).name +
                   ") of the " + std::to_string(shape[1]) + " of " + shape.to_string());
  }
  Shape result = of.shape;
  for (std::size_t i = 2; i < shape.rank(); ++i) result.push_back(shape[i]);
  const std::int64_t columns = shape.elements() / (shape[0] * shape[1]);
  const compiler::Attributes attributes{.dims = {shape[0], shape[1], 1, columns}};
  const ValueId taken = self_.graph.apply(OpKind::gather, {self_.in_columns(all, columns), named}, attributes);
  return self_.add(self_.in_columns(taken, result[result.rank() - 1]), {result, self_.type_of(x)});
}

Value LayerBuilder::convolution(Value x, Value w, std::optional<Value> b, const Window& window, int groups) {
  compiler::Attributes attributes = self_.windows("convolution", x, window);
  const ValueId all = self_.rows(x);
  const ValueId weight = self_.parameter(w);
  const std::optional<ValueId> bias = self_.parameter(b);
  const std::int64_t in = columns(x), out = self_.tensor(w).shape[0];
  if (groups < 1 || in % groups != 0 || out % groups != 0) {
    throw BadInput("convolution: " + std::to_string(in) + " channels in and " + std::to_string(out) +
                   " out are not made of " + std::to_string(groups) + " groups");
  }
  const std::int64_t elements = std::int64_t{window.size[0]} * window.size[1];
  if (elements > std::numeric_limits<std::int32_t>::max()) {
    throw BadInput("convolution: a window of " + std::to_string(elements) + " elements is too large");
  }
  self_.require_weight("convolution", elements * (in / groups), w, b, true);
  if (groups == 1) {
    const bool pixels =
        window.size == Window{}.size && window.stride == Window{}.stride && window.padding == Window{}.padding;
    const ValueId covered = pixels ? all : self_.graph.apply(OpKind::unfold, {all}, attributes);
    return self_.of_windows(x, attributes, self_.graph.linear_transposed(covered, weight, bias));
  }
  if (groups == in && out == in) {
    const ValueId made = self_.graph.apply(OpKind::depthwise, {all, weight}, attributes);
    const Value y = self_.of_windows(x, attributes, made);
    return b ? add(y, *b) : y;
  }
  const compiler::Attributes whole = attributes;
  attributes.dims[3] = in / groups;
  const std::vector<ValueId>& weights = self_.in_groups(w, groups);
  std::vector<ValueId> made;
  for (int group = 0; group < groups; ++group) {
    const ValueId channels = self_.columns_of(all, group * (in / groups), in / groups);
    const ValueId covered = self_.graph.apply(OpKind::unfold, {channels}, attributes);
    made.push_back(self_.graph.linear_transposed(covered, weights[static_cast<std::size_t>(group)]));
  }
  const Value y = self_.of_windows(x, whole, self_.side_by_side(made));
  return b ? add(y, *b) : y;
}

Value LayerBuilder::max_pool(Value x, const Window& window) {
  const compiler::Attributes attributes = self_.windows("max_pool", x, window);
  return self_.of_windows(x, attributes, self_.graph.apply(OpKind::max_pool, {self_.rows(x)}, attributes));
}

Value LayerBuilder::average_pool(Value x, const Window& window) {
  const compiler::Attributes attributes = self_.windows("average_pool", x, window);
  return self_.of_windows(x, attributes, self_.graph.apply(OpKind::average_pool, {self_.rows(x)}, attributes));
}

Value LayerBuilder::upsample(Value x, std::array<int, 2> factors) {
  const Shape shape = self_.image("upsample", x);
  const auto [down, across] = factors;
  if (down < 1 || across < 1) throw BadInput("upsample: factors are 1 or more");
  const compiler::Attributes attributes{.dims = {shape[0], shape[1], shape[2], shape[3]},
                                        .image_window = {.stride = {down, across}}};
  const ValueId larger = self_.graph.apply(OpKind::upsample, {self_.rows(x)}, attributes);
  return self_.add(larger, {{shape[0], shape[1] * down, shape[2] * across, shape[3]}, self_.type_of(x)});
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

}  // namespace l2l

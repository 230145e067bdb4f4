// What LayerBuilder (include/l2l/graph.h) keeps of the graph that it builds. Only layer_builder.cpp and own_layers.cpp
// include this.
#pragma once

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <map>
#include <set>

#include "core/model_layout.h"
#include "l2l/errors.h"
#include "models/dimensions.h"
#include "models/own_layers.h"

namespace l2l {

// What a value of LayerBuilder stands for: a value of the graph, a matrix, in the shape that the layer sees. Several
// may stand for one.
struct LayerBuilder::Implementation {
  static std::uint32_t new_number() {
    static std::atomic<std::uint32_t> last{0};
    return ++last;
  }

  compiler::GraphBuilder& graph;
  models::LayerWeights& weights;
  const models::TransformerShape& shape;
  std::vector<models::LayerTensor> tensors = {};
  std::vector<compiler::ValueId> ids = {};  // of each of these
  std::set<std::string> names = {};         // of parameters
  struct Statistic {
    Distribution::Kind begins;
    bool used = false;
  };
  std::map<compiler::ValueId, Statistic> statistics = {};
  std::map<compiler::ValueId, std::vector<compiler::ValueId>> groups = {};                // parts of matrices
  std::map<std::pair<compiler::ValueId, std::int64_t>, compiler::ValueId> reshaped = {};  // by columns
  std::map<compiler::ValueId, compiler::ValueId> streams_read = {};
  std::uint32_t number = new_number();  // Value::graph of all of them

  Value add(compiler::ValueId id, models::LayerTensor tensor) {
    tensors.push_back(tensor);
    ids.push_back(id);
    return {static_cast<std::int32_t>(ids.size() - 1), number};
  }
  // Of the graph's own shape and dtype.
  Value add(compiler::ValueId id) { return add(id, {graph.value(id).shape, graph.value(id).dtype}); }
  // Of the shape of x, but for the columns.
  Value like(Value x, compiler::ValueId id) {
    models::LayerTensor tensor = tensors[index(x)];
    const Shape& matrix = graph.value(id).shape;
    tensor.shape = with(tensor.shape, tensor.shape.rank() - 1, matrix[matrix.rank() - 1]);
    tensor.dtype = graph.value(id).dtype;
    tensor.stream = false;
    return add(id, tensor);
  }
  static Shape with(const Shape& shape, std::size_t dimension, std::int64_t size) {
    Shape changed;
    for (std::size_t i = 0; i < shape.rank(); ++i) changed.push_back(i == dimension ? size : shape[i]);
    return changed;
  }

  static constexpr std::int64_t kMaxDimension = std::numeric_limits<std::int32_t>::max();  // as kernels count
  static void require_dimension(const std::string& what, std::int64_t size) {
    if (size >= 1 && size <= kMaxDimension) return;
    throw BadInput(what + ": a dimension of " + std::to_string(size) + "; it is 1 to " + std::to_string(kMaxDimension));
  }
  void declare(const std::string& name, std::initializer_list<std::int64_t> shape, const Distribution& initial) {
    const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.'; };
    if (name.empty() || !std::ranges::all_of(name, allowed)) {
      throw BadInput("parameter \"" + name + "\": a name has letters, digits, '_', '-' and '.'");
    }
    if (!names.insert(name).second) throw BadInput("parameter " + name + " is declared twice");
    for (const std::int64_t size : shape) require_dimension("parameter " + name, size);
    if (Shape(shape).elements() > kMaxParameterElements) {
      throw BadInput("parameter " + name + " " + Shape(shape).to_string() + " has more than 2^34 elements");
    }
    if (!std::isfinite(initial.scale) || initial.scale < 0) {
      throw BadInput("parameter " + name + ": begins with a scale of " + std::to_string(initial.scale) +
                     "; it is 0 or more");
    }
  }
  std::size_t index(Value value) const {
    const bool known = value.id >= 0 && static_cast<std::size_t>(value.id) < ids.size();
    if (known && value.graph == number) return static_cast<std::size_t>(value.id);
    throw BadInput(std::string("a value is used that this graph has not made") +
                   (value.id < 0 ? "" : ": it is of another layer's, and comes here as an input alone"));
  }
  compiler::ValueId at(Value value) const { return ids[index(value)]; }
  const models::LayerTensor& tensor(Value value) const { return tensors[index(value)]; }
  bool is_parameter(Value value) const { return graph.value(at(value)).region == compiler::Region::weights; }
  // A value with rows; of a stream what it is in the compute type.
  compiler::ValueId rows(Value value) {
    if (tensor(value).stream) return read(at(value));
    const compiler::ValueId id = at(value);
    if (is_parameter(value)) {
      throw BadInput("parameter " + graph.value(id).name + " stands where a value with rows is taken");
    }
    if (graph.value(id).dtype != DType::i32) return id;
    throw BadInput(graph.value(id).name + " are indices, and stand where numbers are taken");
  }
  // The stream, rounded to the compute type, once.
  compiler::ValueId read(compiler::ValueId stream) {
    const auto [known, fresh] = streams_read.try_emplace(stream);
    if (fresh) known->second = graph.read_stream(stream, shape.compute);
    return known->second;
  }
  models::LayerTensor as_stream(Value x) const { return {tensor(x).shape, shape.stream_type(), 0, true}; }
  // Of what is made of x.
  DType type_of(Value x) const { return tensor(x).stream ? shape.compute : tensor(x).dtype; }
  // What comes next is another branch: run backwards, it finds nothing of those before it but streams.
  void end_branch() {
    streams_read.clear();
    reshaped.clear();
  }
  // Indices that each name something.
  compiler::ValueId indices(const char* op, Value value) const {
    const compiler::ValueId id = at(value);
    const compiler::Value& named = graph.value(id);
    const std::string what = std::string(op) + ": " + named.name;
    if (named.dtype != DType::i32 || tensor(value).stream) throw BadInput(what + " are numbers, and no indices");
    if (named.region != compiler::Region::targets) return id;
    throw BadInput(what + " is a target, which may be -1; bring it as one of model.inputs");
  }
  compiler::ValueId parameter(Value value) const {
    if (is_parameter(value)) return trained(value);
    throw BadInput(graph.value(at(value)).name + " stands where a parameter is taken");
  }
  // A parameter with a gradient.
  compiler::ValueId trained(Value value) const {
    const compiler::ValueId id = at(value);
    if (groups.contains(id)) throw BadInput("parameter " + graph.value(id).name + " stands in groups before");
    if (!statistics.contains(id)) return id;
    throw BadInput("statistic " + graph.value(id).name + " stands where a parameter is taken");
  }
  // For its one use. `begins`: where one of its meaning does.
  compiler::ValueId take_statistic(Value value, Distribution::Kind begins) {
    const compiler::ValueId id = at(value);
    const auto found = statistics.find(id);
    if (found == statistics.end()) throw BadInput("batch_norm: " + graph.value(id).name + " is no statistic()");
    if (found->second.used) {
      throw BadInput("batch_norm: statistic " + graph.value(id).name + " is that of another one");
    }
    if (found->second.begins != begins) {
      throw BadInput("batch_norm: the mean begins at zeros, the variance at ones; " + graph.value(id).name +
                     " does not");
    }
    found->second.used = true;
    return id;
  }
  std::optional<compiler::ValueId> parameter(std::optional<Value> value) const {
    return value ? std::optional(parameter(*value)) : std::nullopt;
  }
  void require_used_statistics() const {
    for (const auto& [id, statistic] : statistics) {
      if (!statistic.used) throw BadInput("measures nothing for its statistic " + graph.value(id).name);
    }
  }
  // Throws unless w, or its transpose, takes rows of `in` columns, and b has an element for each column of the product.
  void require_weight(const char* op, std::int64_t in, Value w, std::optional<Value> b, bool transposed) const {
    const auto require = [&](Value value, const Shape& expected) {
      if (tensor(value).shape == expected) return;
      throw BadInput(std::string(op) + ": parameter " + graph.value(at(value)).name + " is " +
                     tensor(value).shape.to_string() + ", where the other operands take " + expected.to_string());
    };
    const Shape& shape = tensor(w).shape;
    const std::int64_t out = shape[transposed ? 0 : shape.rank() - 1];
    require(w, transposed ? Shape{out, in} : Shape{in, out});
    if (b) require(*b, {out});
  }
  void require_two(const char* op, Value gain, Value bias) const {
    if (parameter(gain) != parameter(bias)) return;
    throw BadInput(std::string(op) + ": parameter " + graph.value(at(gain)).name + " is gain and bias at once");
  }
  // `dimension` of x, which is not that of samples.
  std::size_t dimension(const char* op, Value x, int dimension) const {
    const std::size_t rank = tensor(x).shape.rank();
    if (dimension >= 1 && static_cast<std::size_t>(dimension) < rank) return static_cast<std::size_t>(dimension);
    throw BadInput(std::string(op) + ": dimension " + std::to_string(dimension) + " of a value " +
                   tensor(x).shape.to_string() + "; it is 1 to " + std::to_string(rank - 1));
  }
  // The matrix `id` in rows of `columns`.
  compiler::ValueId in_columns(compiler::ValueId id, std::int64_t columns) {
    const Shape& matrix = graph.value(id).shape;
    if (matrix[1] == columns) return id;
    const auto [known, fresh] = reshaped.try_emplace({id, columns});
    if (fresh) known->second = graph.reshape(id, columns);
    return known->second;
  }
  // Columns [first, first + count) of a matrix.
  compiler::ValueId columns_of(compiler::ValueId matrix, std::int64_t first, std::int64_t count) {
    if (count == graph.value(matrix).shape[1]) return matrix;
    return graph.apply(compiler::OpKind::columns, {matrix}, {.first = first, .columns = count});
  }
  // The columns of all parts, in their order. Halves are joined, so that each part is copied few times.
  compiler::ValueId side_by_side(std::span<const compiler::ValueId> parts) {
    if (parts.size() == 1) return parts[0];
    const std::size_t half = (parts.size() + 1) / 2;
    const compiler::ValueId left = side_by_side(parts.first(half)), right = side_by_side(parts.subspan(half));
    const std::int64_t first = graph.value(left).shape[1], columns = first + graph.value(right).shape[1];
    const compiler::ValueId wide = graph.apply(compiler::OpKind::pad_columns, {left}, {.columns = columns});
    return graph.add_columns(wide, right, first, 1);
  }
  // The `count` equal parts of a matrix's rows, as which alone it then stands.
  const std::vector<compiler::ValueId>& in_groups(Value matrix, std::int64_t count) {
    const compiler::ValueId id = at(matrix);
    if (const auto known = groups.find(id); known != groups.end()) {
      if (static_cast<std::int64_t>(known->second.size()) == count) return known->second;
      throw BadInput("convolution: " + graph.value(id).name + " stands in other groups before");
    }
    return groups.emplace(id, graph.split_rows(parameter(matrix), count)).first->second;
  }
  // `x` repeated to `shape`.
  compiler::ValueId repeated(Value x, const Shape& shape) {
    const Shape own = tensor(x).shape;
    if (!is_parameter(x)) return own == shape ? rows(x) : models::repeat(graph, rows(x), own, shape);
    if (own.rank() == shape.rank() && own[0] != 1) {
      throw BadInput("parameter " + graph.value(at(x)).name + " " + own.to_string() +
                     " has elements for each sample of a microbatch " + shape.to_string());
    }
    return models::repeat(graph, trained(x), own, shape);
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
  Value two(compiler::OpKind kind, const char* op, Value a, Value b) {
    const Shape shape = common(op, a, b);
    const compiler::ValueId x = repeated(a, shape), y = repeated(b, shape);
    if (graph.value(x).dtype != graph.value(y).dtype) {
      throw BadInput(std::string(op) + ": the result of cross_entropy() is fp32, the other value " +
                     std::string(l2l::name_of(this->shape.compute)) + ": set precision.compute = \"fp32\"");
    }
    return add(graph.apply(kind, {x, y}), {shape, graph.value(x).dtype});
  }
  Value one(compiler::OpKind kind, Value x, const compiler::Attributes& attributes = {}) {
    return like(x, graph.apply(kind, {rows(x)}, attributes));
  }
  // The four dimensions of an image.
  const Shape& image(const char* op, Value x) const {
    const Shape& shape = tensor(x).shape;
    if (shape.rank() == 4) return shape;
    throw BadInput(std::string(op) + ": takes [samples, height, width, channels], not " + shape.to_string());
  }
  compiler::Attributes windows(const char* op, Value x, const Window& window) const {
    const Shape& shape = image(op, x);
    for (const auto& numbers : {window.size, window.stride, window.dilation}) {
      if (std::ranges::any_of(numbers, [](int number) { return number < 1; })) {
        throw BadInput(std::string(op) + ": size, stride and dilation of a window are 1 or more");
      }
    }
    return {.dims = {shape[0], shape[1], shape[2], shape[3]},
            .image_window = {window.size, window.stride, window.padding, window.dilation}};
  }
  // What a window of the image x gives, with `id` as its value.
  Value of_windows(Value x, const compiler::Attributes& attributes, compiler::ValueId id) {
    Shape shape{attributes.dims[0]};
    for (const std::size_t side : {0u, 1u}) {
      shape.push_back(attributes.image_window.places(side, attributes.dims[1 + side]));
    }
    shape.push_back(graph.value(id).shape[1]);
    return add(id, {shape, type_of(x)});
  }
};

}  // namespace l2l

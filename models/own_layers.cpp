#include "models/own_layers.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "l2l/errors.h"
#include "models/streams.h"

namespace l2l {

using compiler::ValueId;
using models::TransformerShape;

struct LayerBuilder::Implementation {
  compiler::GraphBuilder& graph;
  models::LayerWeights& weights;
  const TransformerShape& shape;
  std::set<std::string> names = {};  // of parameters

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
  ValueId at(Value value) const {
    if (value.id < 0 || value.id >= graph.count()) throw BadInput("a value is used that this graph has not made");
    return value.id;
  }
  // A value with a row for each token.
  ValueId rows(Value value) const {
    const ValueId id = at(value);
    if (graph.value(id).region != compiler::Region::weights) return id;
    throw BadInput("parameter " + graph.value(id).name + " stands where a value with a row for each token is taken");
  }
  ValueId parameter(Value value) const {
    const ValueId id = at(value);
    if (graph.value(id).region == compiler::Region::weights) return id;
    throw BadInput(graph.value(id).name + " stands where a parameter is taken");
  }
  std::optional<ValueId> parameter(std::optional<Value> value) const {
    return value ? std::optional(parameter(*value)) : std::nullopt;
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
  const Shape& shape = self_.graph.value(self_.at(x)).shape;
  return shape[shape.rank() - 1];
}

Value LayerBuilder::matrix(const std::string& name, std::int64_t rows, std::int64_t columns, Distribution initial) {
  return matrices({{name, rows}}, columns, initial);
}

Value LayerBuilder::vector(const std::string& name, std::int64_t elements, Distribution initial) {
  self_.declare(name, initial);
  return {self_.weights.vector(name, elements, initial_of(initial), static_cast<float>(initial.scale))};
}

Value LayerBuilder::matrices(const std::vector<std::pair<std::string, std::int64_t>>& pieces, std::int64_t columns,
                             Distribution initial) {
  std::vector<models::LayerWeights::Piece> all;
  for (const auto& [name, rows] : pieces) {
    self_.declare(name, initial);
    all.push_back({name, rows});
  }
  return {self_.weights.joined_matrix(all, columns, initial_of(initial), static_cast<float>(initial.scale))};
}

Value LayerBuilder::linear(Value x, Value w, std::optional<Value> b) {
  return {self_.graph.linear(self_.rows(x), self_.parameter(w), self_.parameter(b))};
}

Value LayerBuilder::linear_transposed(Value x, Value w, std::optional<Value> b) {
  return {self_.graph.linear_transposed(self_.rows(x), self_.parameter(w), self_.parameter(b))};
}

Value LayerBuilder::layer_norm(Value x, Value gain, Value bias, double epsilon) {
  return {
      self_.graph.layer_norm(self_.rows(x), self_.parameter(gain), self_.parameter(bias), static_cast<float>(epsilon))};
}

Value LayerBuilder::rms_norm(Value x, Value gain, double epsilon) {
  return {self_.graph.rms_norm(self_.rows(x), self_.parameter(gain), static_cast<float>(epsilon))};
}

Value LayerBuilder::gelu(Value x, bool exact) { return {self_.graph.gelu(self_.rows(x), exact)}; }

Value LayerBuilder::tanh(Value x) { return {self_.graph.tanh(self_.rows(x))}; }

Value LayerBuilder::sigmoid(Value x) { return {self_.graph.sigmoid(self_.rows(x))}; }

Value LayerBuilder::silu(Value x) { return {self_.graph.silu(self_.rows(x))}; }

Value LayerBuilder::relu(Value x) { return {self_.graph.relu(self_.rows(x))}; }

Value LayerBuilder::gated(Value x, Gate gate) {
  return {self_.graph.swiglu(self_.rows(x), {.exact = gate == Gate::gelu, .gelu = gate != Gate::silu})};
}

Value LayerBuilder::dropout(Value x, double probability) {
  return {self_.graph.dropout(self_.rows(x), static_cast<float>(probability))};
}

Value LayerBuilder::add(Value a, Value b) { return {self_.graph.add(self_.rows(a), self_.rows(b))}; }

Value LayerBuilder::multiply(Value a, Value b) { return {self_.graph.multiply(self_.rows(a), self_.rows(b))}; }

Value LayerBuilder::scale(Value x, double factor) {
  return {self_.graph.scale(self_.rows(x), static_cast<float>(factor))};
}

Value LayerBuilder::add_columns(Value x, Value y, std::int64_t first, double factor) {
  return {self_.graph.add_columns(self_.rows(x), self_.rows(y), first, static_cast<float>(factor))};
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
                                        .sequence = static_cast<int>(sequence())};
  return {models::attend(self_.graph, self_.shape, self_.rows(x), attributes)};
}

Value LayerBuilder::rotary(Value x, int heads, int kv_heads, double base) {
  const compiler::Attributes attributes{.heads = heads,
                                        .kv_heads = kv_heads,
                                        .sequence = static_cast<int>(sequence()),
                                        .positions = self_.shape.cache > 0 ? static_cast<int>(self_.shape.context) : 0,
                                        .rotary_base = static_cast<float>(base)};
  return {self_.graph.rotary(self_.rows(x), attributes,
                             models::read_rows(self_.graph, self_.shape, compiler::RowField::position))};
}

namespace models {
namespace {

std::string name_of(const Layer& layer) {
  return "layer " + std::to_string(layer.id) + (layer.type.empty() ? "" : " (" + layer.type + ")");
}

ValueId build(const Layer& layer, compiler::GraphBuilder& graph, LayerWeights& weights, ValueId x,
              const TransformerShape& shape) {
  LayerBuilder::Implementation self{graph, weights, shape};
  LayerBuilder builder(self);
  const Value input{x};
  const std::vector<Value> outputs = layer.build(builder, {&input, 1});
  if (outputs.size() != 1) {
    throw BadInput("returns " + std::to_string(outputs.size()) + " values; this version takes one");
  }
  const ValueId y = self.at(outputs[0]);
  if (y == x) throw BadInput("returns its input unchanged; leave the layer out");
  const compiler::Value &in = graph.value(x), &out = graph.value(y);
  if (out.region != compiler::Region::scratch) throw BadInput("returns a parameter");
  if (out.shape != in.shape) {
    throw BadInput("returns " + out.shape.to_string() + "; it must be as its input, " + in.shape.to_string());
  }
  if (self.names.empty()) throw BadInput("has no parameters; make it a part of the layer before or behind it");
  return y;
}

}  // namespace

Family::Part part_of(const Layer& layer) {
  return [layer](compiler::GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
    try {
      return build(layer, graph, weights, x, shape);
    } catch (const BadInput& error) {
      throw BadInput("model.blocks: " + name_of(layer) + ": " + error.what());
    }
  };
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

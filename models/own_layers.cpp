#include "models/own_layers.h"

#include <algorithm>
#include <exception>

#include "models/layer_builder.h"
#include "models/streams.h"

namespace l2l::models {

using compiler::OpKind;
using compiler::ValueId;

Shape LayerTensor::matrix() const {
  if (dtype == DType::i32 && !stream) return {shape.elements()};
  const std::int64_t columns = shape[shape.rank() - 1];
  return {shape.elements() / columns, columns};
}

namespace {

Bytes next_place(Bytes end) { return align_up(end, 64); }

// What a layer or a loss throws, with its name and the key that it stands under. What is none of ours is nested.
template <typename Build>
void with_name(const char* key, const std::string& name, const Build& build) {
  const std::string what = key + (name.empty() ? "" : ": " + name) + ": ";
  try {
    build();
  } catch (const BadInput& error) {
    ErrorPlace place = error.place();
    if (place.key.empty()) place.key = key;
    throw BadInput(what + error.what(), place);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    std::throw_with_nested(Error(what + error.what()));
  }
}

const char* key_of(const Layer& layer, const TransformerShape& shape) {
  const auto is = [&](const Layer& each) { return each.id == layer.id; };
  return shape.reserve && std::ranges::any_of(shape.reserve->layers, is) ? "model.reserve" : "model.blocks";
}

// The layer's ops, and its results as values that can be placed.
std::vector<Value> build(const Layer& layer, LayerBuilder::Implementation& self, const LayerEnds& inputs) {
  std::vector<Value> read;
  const std::vector<Bytes> places = places_of(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = "x" + (inputs.size() > 1 ? std::to_string(i) : "");
    const ValueId id = self.graph.bound(compiler::Region::input, name, inputs[i].dtype, inputs[i].matrix(), places[i]);
    read.push_back(self.add(id, inputs[i]));
  }
  LayerBuilder builder(self);
  std::vector<Value> outputs = layer.build(builder, read);
  if (outputs.empty()) throw BadInput("returns no value");
  self.require_used_statistics();
  const auto made = [&](Value value) { return self.graph.value(self.at(value)).region == compiler::Region::scratch; };
  for (const Value value : outputs) {
    if (self.is_parameter(value)) throw BadInput("returns a parameter");
  }
  if (std::ranges::none_of(outputs, made)) throw BadInput("returns its inputs unchanged; leave the layer out");
  // What it passes on, or returns twice, is copied.
  std::set<ValueId> seen;
  for (Value& value : outputs) {
    if (made(value) && seen.insert(self.at(value)).second) continue;
    if (self.tensor(value).stream) {
      throw BadInput("returns a stream to which it has added nothing, or returns it twice");
    }
    value = self.add(self.graph.reshape(self.at(value), 0), self.tensor(value));
  }
  return outputs;
}

// A layer whose gradient of an input is never written would leave that of another layer there.
void check_inputs_are_read(const compiler::Graph& graph) {
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const compiler::Value& value = graph.values[i];
    const bool indices = value.dtype == DType::i32 && value.shape.rank() == 1;
    if (value.region != compiler::Region::input || indices) continue;
    const auto reads = [&](const compiler::Op& op) {
      return std::ranges::count(op.inputs, static_cast<ValueId>(i)) > 0;
    };
    if (std::ranges::any_of(graph.ops, reads)) continue;
    throw BadInput("does not read its input " + value.name + " " + value.shape.to_string() +
                   "; the layer before must not return it");
  }
}

// What samples bring as targets or inputs: tensors of whole words, one behind the other.
struct SampleValues {
  std::vector<ValueId> ids = {};  // as they come
  LayerEnds ends = {};            // as layers read them
  Bytes bytes = 0;
};

SampleValues bind_samples(compiler::GraphBuilder& graph, compiler::Region region, const std::vector<TensorSpec>& specs,
                          const TransformerShape& shape) {
  SampleValues samples;
  for (const TensorSpec& spec : specs) {
    LayerTensor tensor{{shape.rows()}, shape.compute, spec.below};
    for (const std::int64_t size : spec.shape) tensor.shape.push_back(size);
    if (spec.shape.empty()) tensor.shape.push_back(1);
    if (spec.element == TensorSpec::Element::i32) tensor.dtype = DType::i32;
    const bool whole = word_element(spec.element) == WordElement::whole;
    const DType dtype = spec.element == TensorSpec::Element::f32 ? DType::f32 : DType::i32;
    const Shape matrix = whole ? tensor.matrix() : Shape{shape.rows(), words_of(spec)};
    samples.ids.push_back(graph.bound(region, spec.name, dtype, matrix, samples.bytes));
    const auto words = static_cast<Bytes>(shape.rows() * words_of(spec));
    samples.bytes = next_place(samples.bytes + words * size_of(DType::i32));
    samples.ends.push_back(tensor);
  }
  return samples;
}

// The value that layers read of a bound one; the same where it is that.
ValueId read_sample(compiler::GraphBuilder& graph, const TensorSpec& spec, ValueId bound, const LayerTensor& tensor) {
  const WordElement type = word_element(spec.element);
  if (type != WordElement::whole) return graph.unpack(bound, type, tensor.matrix(), tensor.dtype);
  return spec.element == TensorSpec::Element::f32 ? graph.read_stream(bound, tensor.dtype) : bound;
}

}  // namespace

WordElement word_element(TensorSpec::Element element) {
  switch (element) {
    case TensorSpec::Element::u8:
      return WordElement::u8;
    case TensorSpec::Element::f16:
      return WordElement::f16;
    case TensorSpec::Element::bf16:
      return WordElement::bf16;
    case TensorSpec::Element::f32:
    case TensorSpec::Element::i32:
      break;
  }
  return WordElement::whole;
}

std::string name_of(TensorSpec::Element element) {
  static constexpr const char* kNames[] = {"f32", "i32", "u8", "f16", "bf16"};
  const auto index = static_cast<std::size_t>(element);
  return index < std::size(kNames) ? kNames[index] : std::string();
}

Bytes bytes_of(const LayerEnds& ends) {
  const std::vector<Bytes> places = places_of(ends);
  Bytes bytes = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) bytes = std::max(bytes, places[i] + ends[i].bytes());
  return bytes;
}

std::vector<Bytes> places_of(const LayerEnds& ends) {
  std::vector<Bytes> places(ends.size());
  Bytes place = 0;
  for (const bool stream : {true, false}) {
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].stream != stream) continue;
      places[i] = place;
      place = next_place(place + ends[i].bytes());
    }
  }
  return places;
}

bool are_streams(const LayerEnds& ends) { return std::ranges::all_of(ends, &LayerTensor::stream); }

LayerEnds family_ends(const TransformerShape& shape) { return {{{shape.own_rows(), shape.hidden}, shape.compute}}; }

LayerEnds input_ends(const TransformerShape& shape) {
  compiler::GraphBuilder graph("inputs");
  return bind_samples(graph, compiler::Region::tokens, shape.inputs, shape).ends;
}

compiler::Graph inputs_graph(const TransformerShape& shape) {
  compiler::GraphBuilder graph("inputs");
  const SampleValues samples = bind_samples(graph, compiler::Region::tokens, shape.inputs, shape);
  Bytes place = 0;
  for (std::size_t i = 0; i < samples.ids.size(); ++i) {
    const ValueId id = read_sample(graph, shape.inputs[i], samples.ids[i], samples.ends[i]);
    graph.place(id == samples.ids[i] ? graph.reshape(id, 0) : id, compiler::Region::output, place);
    place = next_place(place + samples.ends[i].bytes());
  }
  return graph.finish();
}

compiler::Graph layer_graph_of(const Layer& layer, const char* name, const TransformerShape& shape,
                               const LayerEnds& inputs, LayerEnds& outputs, ParameterList& list) {
  compiler::GraphBuilder graph(name);
  LayerWeights weights(graph, list, shape.compute);
  LayerBuilder::Implementation self{graph, weights, shape};
  compiler::Graph result;
  with_name(key_of(layer, shape), name_of(layer), [&] {
    const std::vector<Value> results = build(layer, self, inputs);
    for (const Value value : results) outputs.push_back(self.tensor(value));
    const std::vector<Bytes> places = places_of(outputs);
    for (std::size_t i = 0; i < results.size(); ++i) {
      graph.place(self.at(results[i]), compiler::Region::output, places[i]);
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
  with_name(key_of(layer, shape), name_of(layer), [&] { results = build(layer, self, inputs); });
  const SampleValues samples = bind_samples(graph, compiler::Region::targets, shape.targets, shape);
  std::vector<Value> targets;
  for (std::size_t i = 0; i < samples.ids.size(); ++i) {
    const ValueId id = read_sample(graph, shape.targets[i], samples.ids[i], samples.ends[i]);
    targets.push_back(self.add(id, samples.ends[i]));
  }
  const ValueId counts = graph.bound(compiler::Region::targets, "counts", DType::i32, {shape.rows()}, samples.bytes);
  compiler::Graph result;
  with_name("model.loss", "", [&] {
    LayerBuilder builder(self);
    const Value loss = shape.loss(builder, results, targets);
    self.require_used_statistics();
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
    if (self.tensor(results[0]).stream) throw BadInput("the last layer's first result is a stream");
    if (self.tensor(results[0]).dtype == DType::i32) throw BadInput("the last layer's first result are indices");
    if (kind == CustomHead::evaluation) {
      graph.place(graph.value(self.at(results[0])).dtype == shape.compute
                      ? self.at(results[0])
                      : throw BadInput("the last layer's first result is not in precision.compute"),
                  compiler::Region::output);
    }
    result = graph.finish();
  });
  with_name(key_of(layer, shape), name_of(layer), [&] { check_inputs_are_read(result); });
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

}  // namespace l2l::models

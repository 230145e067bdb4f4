// Layers that a program describes (include/l2l/graph.h): between the embedding and the head of a family, or as a whole
// model.
#pragma once

#include <vector>

#include "l2l/graph.h"
#include "l2l/options.h"
#include "models/family.h"

namespace l2l::models {

WordElement word_element(TensorSpec::Element element);
std::string name_of(TensorSpec::Element element);  // "f32"; empty: there is no such type
// Of one sample; check_custom() bounds them.
inline std::int64_t elements_of(const TensorSpec& spec) {
  std::int64_t elements = 1;
  for (const std::int64_t size : spec.shape) elements *= size;
  return elements;
}
inline std::int64_t words_of(const TensorSpec& spec) {
  return words_for(word_element(spec.element), elements_of(spec));
}

// A tensor of one microbatch as LayerBuilder shows it, with its sample as dimension 0.
struct LayerTensor {
  Shape shape;
  DType dtype = DType::f32;  // the compute type; of a stream its own; or i32: indices below `below`
  std::int64_t below = 0;
  bool stream = false;  // of a reversible model
  bool operator==(const LayerTensor&) const = default;

  // As a value of a graph: indices are a vector, all else is a matrix whose columns are the last dimension.
  Shape matrix() const;
  Bytes bytes() const { return static_cast<Bytes>(shape.elements()) * size_of(dtype); }
};

// What lies between two layers: one behind the other in Region::output of the first and Region::input of the second.
using LayerEnds = std::vector<LayerTensor>;
Bytes bytes_of(const LayerEnds& ends);
bool are_streams(const LayerEnds& ends);
// Where each begins. Streams come first: gradients lie at the same elements, and those of streams may be smaller.
std::vector<Bytes> places_of(const LayerEnds& ends);
// Of a family's embedding and blocks: one activation.
LayerEnds family_ends(const TransformerShape& shape);
// Of a custom model's inputs.
LayerEnds input_ends(const TransformerShape& shape);

// A layer's graph from `inputs` to what it returns, which is appended to `outputs`; `name` is the graph's. Throws
// BadInput naming the layer where it is described wrongly.
compiler::Graph layer_graph_of(const Layer& layer, const char* name, const TransformerShape& shape,
                               const LayerEnds& inputs, LayerEnds& outputs, ParameterList& list);

// A custom model's inputs, in Region::tokens, converted to what the first layer reads.
compiler::Graph inputs_graph(const TransformerShape& shape);
// Its last layer and the loss. An evaluation also hands out the first of the layer's results, whose elements of each
// sample are `outputs`.
enum class CustomHead : std::uint8_t { loss, evaluation };
compiler::Graph custom_head_graph(const Layer& layer, const TransformerShape& shape, const LayerEnds& inputs,
                                  CustomHead kind, ParameterList& list, std::int64_t& outputs);

// Throws BadInput where a model that is built for another length of sequences, or to continue texts, has other
// parameters: a layer's depend on LayerBuilder::sequence() or rows().
void check_same_parameters(const ModelLayout& layout, const ModelLayout& other);

// In messages.
std::string name_of(const Layer& layer);
// model.blocks, and those of model.reserve.
std::vector<Layer> all_layers(const ModelOptions& model);
// Throws BadInput where their ids or types do not fit together.
void check_layers(const ModelOptions& model);
// The same of model.reserve.
void check_reserve(const ModelOptions& model);
// Of a custom model: layers, tensors of samples and loss.
void check_custom(const ModelOptions& model);

}  // namespace l2l::models

#include "models/block_kinds.h"

#include <map>
#include <utility>

#include "l2l/errors.h"
#include "models/streams.h"

namespace l2l::models {

using compiler::Graph;
using compiler::GraphBuilder;
using compiler::Region;
using compiler::ValueId;

Graph layer_graph(const char* name, const TransformerShape& shape, const Family::Part& part, std::int64_t rows,
                  ParameterList& list) {
  GraphBuilder graph(name);
  LayerWeights weights(graph, list, shape.compute);
  graph.place(part(graph, weights, read_input(graph, shape, rows), shape), Region::output);
  return graph.finish();
}

namespace {

// y1 = x1 + F(x2), y2 = x2 + G(y1), for the branches F and G.
Graph reversible_graph(const TransformerShape& shape, const Family& family, ParameterList& list) {
  GraphBuilder graph("block");
  LayerWeights weights(graph, list, shape.compute);
  StreamIds streams = read_streams(graph, shape, shape.rows());
  std::size_t to = 0;
  for (const Family::Part& branch : family.branches) {
    const ValueId from = graph.read_stream(streams[1 - to], shape.compute);
    streams[to] = graph.reversible_add(streams[to], branch(graph, weights, from, shape));
    to = 1 - to;
  }
  write_streams(graph, shape, streams);
  return graph.finish();
}

Graph block_graph(const TransformerShape& shape, const Family& family, ParameterList& list) {
  if (shape.streams()) return reversible_graph(shape, family, list);
  const Family::Part chain = [&](GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape&) {
    for (const Family::Part& branch : family.branches) x = graph.add(x, branch(graph, weights, x, shape));
    return x;
  };
  return layer_graph("block", shape, family.branches.empty() ? family.block : chain, shape.own_rows(), list);
}

// Of a family blocks that slide and that do not have the same parameters.
BlockKind family_block(const TransformerShape& shape, const Family& family, bool slides) {
  TransformerShape own = shape;
  own.sliding = {slides};
  BlockKind kind;
  kind.forward = block_graph(own, family, kind.parameters);
  kind.inputs = kind.outputs = family_ends(shape);
  kind.reversible = shape.streams();
  return kind;
}

BlockKind own_block(const TransformerShape& shape, const Layer& layer, const LayerEnds& inputs) {
  BlockKind kind;
  kind.inputs = inputs;
  kind.forward = layer_graph_of(layer, "block", shape, inputs, kind.outputs, kind.parameters);
  kind.reversible = are_streams(kind.inputs) && are_streams(kind.outputs);
  return kind;
}

// Where the reversible blocks begin, which end at the head. Throws BadInput where a reversible model has none, or one
// in front of another block.
std::size_t first_reversible(const TransformerShape& shape, const Blocks& blocks) {
  std::size_t first = blocks.initial;
  while (first > 0 && blocks.kind(first - 1).reversible) --first;
  if (!shape.streams()) return first;
  const auto name = [&](std::size_t block) { return "model.blocks: layer " + std::to_string(blocks.ids[block]); };
  if (first == blocks.initial) {
    throw BadInput("model.reversible is set, but the layer before the last, " + std::to_string(blocks.ids[first - 1]) +
                   ", is not reversible: its inputs and results are streams (stream(), couple())");
  }
  for (std::size_t block = 0; block < first; ++block) {
    if (!blocks.kind(block).reversible) continue;
    throw BadInput(name(block) + " is reversible, but stands before layer " + std::to_string(blocks.ids[first - 1]) +
                   ", which is not");
  }
  return first;
}

// Throws BadInput unless a block of the family, or its head, can read `ends`.
void check_family_ends(const TransformerShape& shape, const LayerEnds& ends, const std::string& reader) {
  const LayerEnds family = family_ends(shape);
  if (ends == family) return;
  std::string shapes;
  for (const LayerTensor& each : ends) shapes += (shapes.empty() ? "" : ", ") + each.shape.to_string();
  throw BadInput("model.blocks: what stands before " + reader + " returns " + shapes + "; it must be one value, " +
                 family[0].shape.to_string());
}

}  // namespace

Blocks make_blocks(const TransformerShape& shape, const Family& family) {
  std::vector<Layer> layers = shape.blocks;
  for (std::int64_t i = 0; i < shape.layers && shape.blocks.empty(); ++i) {
    layers.push_back({.id = static_cast<std::uint32_t>(i)});
  }
  Blocks blocks;
  const bool custom = shape.head_kind == HeadKind::custom;
  if (custom) layers.pop_back();  // with the loss it is the head
  blocks.initial = layers.size();
  if (shape.reserve) layers.insert(layers.end(), shape.reserve->layers.begin(), shape.reserve->layers.end());
  blocks.first = blocks.last = custom ? input_ends(shape) : family_ends(shape);
  std::map<std::pair<std::string, bool>, std::size_t> known;  // by type, and whether it slides
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    const std::uint32_t owner = layer.shares.value_or(layer.id);
    const bool slides = !layer.build && shape.slides(owner), listed = i < blocks.initial;
    const auto [kind, fresh] = known.try_emplace({layer.type, slides}, blocks.kinds.size());
    LayerEnds ends = blocks.last;
    if (!listed) ends = fresh ? blocks.kind(blocks.initial - 1).inputs : blocks.kinds[kind->second].inputs;
    if (!layer.build) check_family_ends(shape, ends, "block " + std::to_string(layer.id));
    if (fresh) {
      blocks.kinds.push_back(layer.build ? own_block(shape, layer, ends) : family_block(shape, family, slides));
    } else if (layer.build && !(own_block(shape, layer, ends) == blocks.kinds[kind->second])) {
      throw BadInput("model.blocks: layer " + std::to_string(layer.id) + " of type \"" + layer.type +
                     "\" is another graph than the first of that type: give it a type of its own");
    }
    blocks.kind_of.push_back(kind->second);
    blocks.ids.push_back(layer.id);
    blocks.owners.push_back(owner);
    if (listed) blocks.last = blocks.kinds[kind->second].outputs;
  }
  if (!custom) check_family_ends(shape, blocks.last, "the head");
  blocks.first_reversible = first_reversible(shape, blocks);
  return blocks;
}

}  // namespace l2l::models

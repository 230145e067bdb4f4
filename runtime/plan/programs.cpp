#include "runtime/plan/programs.h"

#include <algorithm>

#include "transfer/gradient_drain.h"

namespace l2l::runtime {
namespace {

using compiler::Graph;
using compiler::OpKind;
using compiler::Region;

// Rounds a layer's accumulated gradients to the dtype that leaves the device, with their sum of squares.
Graph drain_graph(std::int64_t elements, DType dtype) {
  Graph graph;
  graph.name = "drain";
  graph.values.push_back({"accumulators", DType::f32, {1, elements}, Region::gradients});
  graph.values.push_back({"gradients", dtype, {1, elements}, Region::drained});
  graph.values.push_back(
      {"squares", DType::f64, {1}, Region::drained, transfer::squares_offset(graph.values.back().bytes())});
  graph.ops.push_back({OpKind::convert, {0}, {1, 2}, {}});
  return graph;
}

// Elements of a layer of `type`: the same for all of them.
std::int64_t elements_of(const models::Model& model, int type) {
  const auto first = std::find(model.type_of.begin(), model.type_of.end(), type) - model.type_of.begin();
  return model.layout.layers[static_cast<std::size_t>(first)].elements;
}

}  // namespace

Programs::Programs(device::Device& device, const models::Model& model, DType gradients) : model_(model) {
  for (int type = 0; type < static_cast<int>(model.types.size()); ++type) {
    const models::LayerType& layer = model.types[static_cast<std::size_t>(type)];
    types_.push_back({device.compile(layer.forward), device.compile(layer.backward),
                      device.compile(drain_graph(elements_of(model, type), gradients)),
                      layer.logits.ops.empty() ? nullptr : device.compile(layer.logits)});
  }
}

std::vector<std::unique_ptr<Programs>> compile(const std::vector<std::shared_ptr<device::Device>>& devices,
                                               const models::Model& model, DType gradients) {
  std::vector<std::unique_ptr<Programs>> programs;
  for (const auto& device : devices) programs.push_back(std::make_unique<Programs>(*device, model, gradients));
  return programs;
}

}  // namespace l2l::runtime

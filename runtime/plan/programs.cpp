#include "runtime/plan/programs.h"

#include <algorithm>

#include "compiler/ir/op_table.h"
#include "eps/parameter_store.h"
#include "l2l/errors.h"
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

// Adds the accumulators of one part of the minibatch to those of another.
Graph add_graph(std::int64_t elements) {
  Graph graph;
  graph.name = "add gradients";
  graph.values.push_back({"other accumulators", DType::f32, {1, elements}, Region::output_gradient});
  graph.values.push_back({"accumulators", DType::f32, {1, elements}, Region::gradients});
  graph.ops.push_back({OpKind::accumulate, {0}, {1}, {}});
  return graph;
}

// Sums a slice of a layer's gradients over devices.
Graph sum_graph(const transfer::GradientSlices& slices) {
  Graph graph;
  graph.name = "sum over devices";
  graph.values.push_back({"gradients", slices.type, {slices.devices, slices.slice()}, Region::output_gradient});
  graph.values.push_back({"sums", DType::f32, {1, slices.slice()}, Region::drained});
  graph.ops.push_back({OpKind::tree_sum, {0}, {1}, {}});
  return graph;
}

static_assert(eps::kMostDevices <= compiler::kMostTreeRows);

// It runs beside the programs of the phases, which share their scratch: it has none.
std::unique_ptr<device::Executable> compile_sum(device::Device& device, const transfer::GradientSlices& slices) {
  std::unique_ptr<device::Executable> sum = device.compile(sum_graph(slices));
  if (Programs::scratch_bytes(sum) > 0) throw Error("a sum over devices wants scratch");
  return sum;
}

// Elements of the gradients of a layer of `type`: the same for all of them.
std::int64_t gradient_elements(const models::Model& model, int type) {
  const auto first = std::find(model.type_of.begin(), model.type_of.end(), type) - model.type_of.begin();
  return model.layout.gradient_elements(static_cast<LayerIndex>(first));
}

}  // namespace

Programs::Programs(device::Device& device, const models::Model& model, DType gradients, int parts, int summing)
    : model_(model) {
  for (int type = 0; type < static_cast<int>(model.types.size()); ++type) {
    const models::LayerType& layer = model.types[static_cast<std::size_t>(type)];
    const std::int64_t trained = gradient_elements(model, type);
    const auto compiled = [&](const Graph& graph) { return graph.ops.empty() ? nullptr : device.compile(graph); };
    types_.push_back({compiled(layer.forward), compiled(layer.backward),
                      trained > 0 ? device.compile(drain_graph(trained, gradients)) : nullptr,
                      trained > 0 && parts > 1 ? device.compile(add_graph(trained)) : nullptr,
                      trained > 0 && summing > 1 ? compile_sum(device, {trained, gradients, summing}) : nullptr,
                      compiled(layer.logits)});
  }
}

std::vector<std::unique_ptr<Programs>> compile(const std::vector<std::shared_ptr<device::Device>>& devices,
                                               const models::Model& model, DType gradients, int parts, int summing) {
  std::vector<std::unique_ptr<Programs>> programs;
  for (const auto& device : devices) {
    programs.push_back(std::make_unique<Programs>(*device, model, gradients, parts, summing));
  }
  return programs;
}

}  // namespace l2l::runtime

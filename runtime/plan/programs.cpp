#include "runtime/plan/programs.h"

#include <algorithm>

#include "compiler/ir/op_table.h"
#include "core/fault_point.h"
#include "eps/parameter_store.h"
#include "l2l/errors.h"
#include "runtime/plan/kernel_choices.h"
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

// Those of the model's devices that have the same of a parameter.
compiler::Shard sharers(const models::Model& model, const ParameterSpec& parameter) {
  if (!parameter.share) return fault_point("tensor.no_sum") ? compiler::Shard{} : model.shard;
  if (fault_point("tensor.no_sum_of_shared_heads")) return {};
  return {parameter.share->devices, model.shard.index % parameter.share->devices};
}

// The same of a device's shares of a layer, without the sum of squares. The gradients of what several devices have are
// added, and are the sum on each of them.
Graph share_drain_graph(const models::Model& model, LayerIndex layer, DType dtype) {
  Graph graph;
  graph.name = "drain";
  const auto value = [&](std::string name, DType type, Shape shape, Region region, std::int64_t first = 0) {
    graph.values.push_back({std::move(name), type, shape, region, static_cast<Bytes>(first) * size_of(type)});
    return static_cast<compiler::ValueId>(graph.values.size() - 1);
  };
  const ModelLayout& shares = *model.shares;
  for (const LayerPart& part : shares.layers[static_cast<std::size_t>(layer)].parts) {
    for (const ParameterSpec& parameter : shares.groups[static_cast<std::size_t>(part.group)].parameters) {
      const std::int64_t first = part.offset + parameter.offset, elements = parameter.shape.elements();
      compiler::ValueId sums = value("accumulators", DType::f32, {1, elements}, Region::gradients, first);
      if (const compiler::Shard shard = sharers(model, parameter); shard.count > 1) {
        const auto all = value("of all that have it", DType::f32, {shard.count, elements}, Region::scratch);
        graph.ops.push_back({OpKind::all_gather_rows, {sums}, {all}, {.shard = shard}});
        sums = value("sums", DType::f32, {1, elements}, Region::scratch);
        graph.ops.push_back({OpKind::tree_sum, {all}, {sums}, {}});
      }
      const auto drained = value("gradients", dtype, {1, elements}, Region::drained, first);
      graph.ops.push_back({OpKind::convert, {sums}, {drained}, {}});
    }
  }
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

// What layers of `type` have alike is that of the first.
LayerIndex first_of(const models::Model& model, int type) {
  return static_cast<LayerIndex>(std::find(model.type_of.begin(), model.type_of.end(), type) - model.type_of.begin());
}

}  // namespace

Programs::Programs(device::Device& device, const models::Model& model, DType gradients, int parts, int summing)
    : model_(model) {
  for (int type = 0; type < static_cast<int>(model.types.size()); ++type) {
    const models::LayerType& layer = model.types[static_cast<std::size_t>(type)];
    const LayerIndex first = first_of(model, type);
    const std::int64_t trained = model.device_layout().gradient_elements(first);
    const auto compiled = [&](const Graph& graph) { return graph.ops.empty() ? nullptr : device.compile(graph); };
    types_.push_back({compiled(layer.forward), compiled(layer.backward),
                      trained > 0 ? device.compile(model.shares ? share_drain_graph(model, first, gradients)
                                                                : drain_graph(trained, gradients))
                                  : nullptr,
                      trained > 0 && parts > 1 ? device.compile(add_graph(trained)) : nullptr,
                      trained > 0 && summing > 1 ? compile_sum(device, {trained, gradients, summing}) : nullptr,
                      compiled(layer.logits)});
  }
}

std::vector<std::unique_ptr<Programs>> compile(const std::vector<std::shared_ptr<device::Device>>& devices,
                                               const std::function<const models::Model&(std::size_t)>& model_of,
                                               DType gradients, int parts, int summing) {
  std::vector<std::unique_ptr<Programs>> programs;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    take_kernels_of_earlier(*devices[i], devices);
    programs.push_back(std::make_unique<Programs>(*devices[i], model_of(i), gradients, parts, summing));
  }
  return programs;
}

std::vector<std::unique_ptr<Programs>> compile(const std::vector<std::shared_ptr<device::Device>>& devices,
                                               const models::Model& model, DType gradients, int parts, int summing) {
  const auto one = [&](std::size_t) -> const models::Model& { return model; };
  return compile(devices, one, gradients, parts, summing);
}

}  // namespace l2l::runtime

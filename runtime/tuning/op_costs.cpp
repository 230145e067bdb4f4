#include "runtime/tuning/op_costs.h"

#include <map>

#include "compiler/autodiff/differentiate.h"

namespace l2l::runtime {

using compiler::Graph;
using compiler::Op;
using compiler::Region;
using compiler::Value;
using compiler::ValueId;

namespace {

// Regions that ops of a graph write: what one reads there another may have made.
bool is_made(Region region) {
  return region == Region::scratch || region == Region::saved || region == Region::output ||
         region == Region::input_gradient || region == Region::loss;
}

// Takes operands over, each once.
class Excerpt {
 public:
  explicit Excerpt(const Graph& graph) : graph_(graph) {}

  ValueId take(ValueId id) {
    if (const auto known = taken_.find(id); known != taken_.end()) return known->second;
    Value value = graph_.value(id);
    value.name = "operand " + std::to_string(excerpt_.values.size());  // ops that are alike are the same graph
    if (is_made(value.region)) {
      value.region = Region::saved;
      value.offset = end_;
      end_ = align_up(end_ + value.bytes(), compiler::kSavedAlignment);
    }
    excerpt_.values.push_back(std::move(value));
    return taken_[id] = static_cast<ValueId>(excerpt_.values.size() - 1);
  }
  Graph with(Op op) && {
    excerpt_.name = std::string(name_of(op.kind));
    excerpt_.ops.push_back(std::move(op));
    return std::move(excerpt_);
  }

 private:
  const Graph& graph_;
  Graph excerpt_;
  std::map<ValueId, ValueId> taken_;
  Bytes end_ = 0;
};

}  // namespace

Graph alone(const Graph& graph, std::size_t index) {
  Excerpt excerpt(graph);
  Op op = graph.ops[index];
  for (ValueId& id : op.inputs) id = excerpt.take(id);
  for (ValueId& id : op.outputs) id = excerpt.take(id);
  return std::move(excerpt).with(std::move(op));
}

std::vector<Cost> op_costs(StepCosts& costs, device::Device& device, const Graph& graph, LayerIndex layer) {
  std::vector<Cost> all;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    all.push_back(costs.launch(*device.compile(alone(graph, i)), layer, Effort::quick).value_or(Cost{}));
  }
  return all;
}

}  // namespace l2l::runtime

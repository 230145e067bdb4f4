#include "compiler/ir/drop_unused.h"

#include <utility>

namespace l2l::compiler {
namespace {

template <typename Visit>
void for_each_operand(Graph& graph, Visit visit) {
  for (Op& op : graph.ops) {
    for (ValueId& id : op.inputs) visit(id);
    for (ValueId& id : op.outputs) visit(id);
  }
}

}  // namespace

void drop_unused(Graph& graph, Unused which) {
  std::vector<bool> kept(graph.values.size(), false);
  for_each_operand(graph, [&](ValueId id) { kept[static_cast<std::size_t>(id)] = true; });
  std::vector<ValueId> renamed(graph.values.size(), -1);
  std::vector<Value> values;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const bool bound = graph.values[i].region != Region::scratch;
    if (!kept[i] && !(bound && which == Unused::scratch)) continue;
    renamed[i] = static_cast<ValueId>(values.size());
    values.push_back(std::move(graph.values[i]));
  }
  graph.values = std::move(values);
  for_each_operand(graph, [&](ValueId& id) { id = renamed[static_cast<std::size_t>(id)]; });
}

}  // namespace l2l::compiler

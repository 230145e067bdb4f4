#include "compiler/memory/program.h"

#include "compiler/memory/planner.h"
#include "l2l/errors.h"

namespace l2l::compiler {
namespace {

// The planning problem of a graph; time is the index of an op. A value is alive from the op that makes it to the end of
// the last one that reads it, a workspace during its op, so that the operands of one op never share bytes.
class ScratchProblem {
 public:
  ScratchProblem(const Graph& graph, Bytes alignment) : graph_(graph), tensor_of_value_(graph.values.size(), kNone) {
    problem_.alignment = alignment;
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      for (const ValueId id : graph.ops[i].outputs) begin(id, i);
      for (const ValueId id : graph.ops[i].inputs) extend(id, i);
    }
  }

  // Returns the workspace's tensor.
  std::size_t add_workspace(std::size_t op, Bytes size) {
    const auto time = static_cast<memory::Time>(op);
    const std::string name = std::string(name_of(graph_.ops[op].kind)) + "." + std::to_string(op) + " workspace";
    return problem_.add({name, size}, time, time + 1);
  }

  memory::Plan solve() const {
    memory::Plan plan = memory::plan(problem_);
    const std::string wrong = memory::validate(problem_, plan);
    if (!wrong.empty()) throw Error(graph_.name + ": the scratch plan is wrong: " + wrong);
    return plan;
  }

  Operand operand(ValueId id, const memory::Plan& plan) const {
    const Value& value = graph_.value(id);
    if (value.region != Region::scratch) return {value.region, value.offset};
    return {Region::scratch, plan.offsets[tensor_of_value_[static_cast<std::size_t>(id)]]};
  }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  void begin(ValueId id, std::size_t op) {
    const Value& value = graph_.value(id);
    if (value.region != Region::scratch) return;
    const auto time = static_cast<memory::Time>(op);
    tensor_of_value_[static_cast<std::size_t>(id)] = problem_.add({value.name, value.bytes()}, time, time + 1);
  }

  void extend(ValueId id, std::size_t op) {
    const std::size_t tensor = tensor_of_value_[static_cast<std::size_t>(id)];
    if (tensor != kNone) problem_.end[tensor] = static_cast<memory::Time>(op) + 1;
  }

  const Graph& graph_;
  memory::Problem problem_;
  std::vector<std::size_t> tensor_of_value_;
};

}  // namespace

Program plan_program(const Graph& graph, const WorkspaceQuery& workspace, Bytes alignment) {
  graph.validate();
  ScratchProblem problem(graph, alignment);
  std::vector<Bytes> sizes;
  std::vector<std::size_t> workspaces;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    sizes.push_back(workspace(graph, i));
    workspaces.push_back(problem.add_workspace(i, sizes.back()));
  }
  const memory::Plan plan = problem.solve();

  Program program{graph, {}, plan.footprint};
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    Launch launch{op, {}, {Region::scratch, plan.offsets[workspaces[i]]}, sizes[i]};
    for (const ValueId id : op.inputs) launch.operands.push_back(problem.operand(id, plan));
    for (const ValueId id : op.outputs) launch.operands.push_back(problem.operand(id, plan));
    program.launches.push_back(std::move(launch));
  }
  return program;
}

}  // namespace l2l::compiler

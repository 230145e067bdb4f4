#include "compiler/remat/policy.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "compiler/autodiff/differentiate.h"
#include "l2l/errors.h"

namespace l2l::compiler::remat {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"full", "none", "selective", "min_cut"};

// Ops whose work grows faster than their operands.
bool is_product(OpKind kind) {
  return kind == OpKind::matmul || kind == OpKind::attention || kind == OpKind::attention_probabilities ||
         kind == OpKind::attention_mix;
}

bool may_survive(const Value& value) { return value.region == Region::scratch; }

std::vector<ValueId> all_that_backward_reads(const Graph& forward) {
  std::vector<ValueId> values = read_by_backward(forward);
  std::erase_if(values, [&](ValueId id) { return !may_survive(forward.value(id)); });
  return values;
}

// Probabilities, and the same after dropout: what grows with the square of the sequence, and is made from few bytes.
std::set<ValueId> core_of_attention(const Graph& forward) {
  std::set<ValueId> core;
  for (const Op& op : forward.ops) {
    const bool of_core =
        op.kind == OpKind::attention_probabilities || (op.kind == OpKind::dropout && core.count(op.inputs[0]) > 0);
    if (of_core) core.insert(op.outputs.begin(), op.outputs.end());
  }
  return core;
}

}  // namespace

Policy parse_policy(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found != kNames.end()) return static_cast<Policy>(found - kNames.begin());
  throw BadInput("no recomputation policy \"" + std::string(name) + "\"; there are full, none, selective, min_cut");
}

std::string_view name_of(Policy policy) { return kNames[static_cast<std::size_t>(policy)]; }

CutProblem cut_problem(const Graph& forward) {
  CutProblem problem;
  for (const Value& value : forward.values) {
    const bool given = !may_survive(value) && value.region != Region::output && value.region != Region::loss;
    problem.values.push_back({.bytes = value.bytes(), .given = given, .keepable = may_survive(value)});
  }
  for (const ValueId id : read_by_backward(forward)) {
    problem.values[static_cast<std::size_t>(id)].needed = true;
  }
  for (const Op& op : forward.ops) {
    CutOp& added = problem.ops.emplace_back();
    for (const ValueId id : op.inputs) added.inputs.push_back(static_cast<ValueIndex>(id));
    for (const ValueId id : op.outputs) added.outputs.push_back(static_cast<ValueIndex>(id));
    added.banned = is_product(op.kind);
  }
  return problem;
}

std::vector<ValueId> values_to_save(const Graph& forward, Policy policy) {
  std::vector<ValueId> values;
  switch (policy) {
    case Policy::full:
      return {};
    case Policy::none:
      return all_that_backward_reads(forward);
    case Policy::selective: {
      values = all_that_backward_reads(forward);
      const std::set<ValueId> core = core_of_attention(forward);
      std::erase_if(values, [&](ValueId id) { return core.count(id) > 0; });
      return values;
    }
    case Policy::min_cut:
      for (const ValueIndex value : min_cut(cut_problem(forward)).keep) values.push_back(static_cast<ValueId>(value));
      return values;
  }
  return values;
}

}  // namespace l2l::compiler::remat

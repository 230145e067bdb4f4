#include "compiler/remat/policy.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "compiler/autodiff/differentiate.h"
#include "compiler/remat/min_cut.h"
#include "core/fault_point.h"
#include "l2l/errors.h"

namespace l2l::compiler::remat {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"full", "none", "selective", "min_cut"};

bool may_be_kept(const Value& value) { return value.region == Region::scratch; }

// Of rows that were gathered from other devices, the device's own, to be gathered again: a share of the bytes
// (Korthikanti et al., section 4.2.2, where g-bar's input is kept).
std::vector<ValueId> all_that_backward_reads(const Graph& forward) {
  std::vector<ValueId> values;
  for (ValueId id : read_by_backward(forward)) {
    const Op* const maker = forward.producer(id);
    const bool gathered = maker != nullptr && maker->kind == OpKind::all_gather_rows;
    if (gathered && !fault_point("remat.keep_gathered")) id = maker->inputs[0];
    if (may_be_kept(forward.value(id)) && std::ranges::count(values, id) == 0) values.push_back(id);
  }
  return values;
}

// Attention probabilities, before and after dropout: they grow with the square of the sequence length.
std::set<ValueId> core_of_attention(const Graph& forward) {
  std::set<ValueId> core;
  for (const Op& op : forward.ops) {
    const bool of_core =
        op.kind == OpKind::attention_probabilities || (op.kind == OpKind::dropout && core.count(op.inputs[0]) > 0);
    if (of_core) core.insert(op.outputs.begin(), op.outputs.end());
  }
  return core;
}

// Values and ops are those of `forward`. What is costly may not run again, gathering rows may; random ops may, since
// their numbers are a function of their key.
CutProblem cut_problem(const Graph& forward) {
  CutProblem problem;
  for (const Value& value : forward.values) {
    const bool given = !may_be_kept(value) && value.region != Region::output && value.region != Region::loss;
    problem.values.push_back({.bytes = value.bytes(), .given = given, .keepable = may_be_kept(value)});
  }
  for (const ValueId id : read_by_backward(forward)) {
    problem.values[static_cast<std::size_t>(id)].needed = true;
  }
  for (const Op& op : forward.ops) {
    CutOp& added = problem.ops.emplace_back();
    for (const ValueId id : op.inputs) added.inputs.push_back(static_cast<ValueIndex>(id));
    for (const ValueId id : op.outputs) added.outputs.push_back(static_cast<ValueIndex>(id));
    added.banned = is_costly(op.kind);
  }
  return problem;
}

}  // namespace

Policy parse_policy(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found != kNames.end()) return static_cast<Policy>(found - kNames.begin());
  throw BadInput("no recomputation policy \"" + std::string(name) + "\"; there are full, none, selective, min_cut");
}

std::string_view name_of(Policy policy) { return kNames[static_cast<std::size_t>(policy)]; }

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
      for (const ValueIndex value : min_cut(cut_problem(forward))) values.push_back(static_cast<ValueId>(value));
      return values;
  }
  return values;
}

}  // namespace l2l::compiler::remat

#include "runtime/tuning/scratch_budget.h"

#include <set>

#include "compiler/remat/stage.h"
#include "runtime/tuning/block_candidates.h"
#include "runtime/tuning/explanation.h"

namespace l2l::runtime {
namespace {

using compiler::Graph;
using compiler::remat::to_nanoseconds;

// Replaces `visit`, the backward visit of `layer`. Returns why, for people.
std::string fit(const RunParts& parts, StepCosts& costs, LayerIndex layer, Graph& visit) {
  device::Device& device = *parts.device;
  compiler::remat::StageProblem problem{visit, {}, [&](const Graph& graph) { return scratch_bytes(device, graph); }};
  for (const Cost& cost : op_costs(costs, visit, layer)) problem.times.push_back(to_nanoseconds(cost.seconds));
  const auto programs = compiler::remat::stage(problem);
  const auto& program = compiler::remat::fastest_within(programs, parts.options.recompute.budget);
  std::string text = "\"" + visit.name + "\": " + format_bytes(program.scratch) + " of scratch (" + program.source +
                     "), of " + format_bytes(programs.front().scratch) + " to " +
                     format_bytes(programs.back().scratch) + "; " +
                     milliseconds(1e-9 * static_cast<double>(program.time)) + " a microbatch, " +
                     milliseconds(1e-9 * static_cast<double>(programs.back().time)) + " without a limit";
  visit = program.graph;
  return text;
}

}  // namespace

Decisions decisions_within_budget(const RunParts& parts, StepCosts& costs) {
  Decisions decisions = uniform_policy(parts.model, compiler::remat::parse_policy(parts.options.recompute.policy));
  std::set<int> fitted;  // policies; each is of one block type
  for (int block = 1; block <= parts.model.blocks(); ++block) {
    const int policy = decisions.policy_of[static_cast<std::size_t>(block - 1)];
    if (!fitted.insert(policy).second) continue;
    Graph& visit = decisions.policies[static_cast<std::size_t>(policy)].visits.backward;
    decisions.explanation.push_back(fit(parts, costs, parts.model.block(block), visit));
  }
  decisions.placements = fixed_placements(parts, decisions);
  return decisions;
}

}  // namespace l2l::runtime

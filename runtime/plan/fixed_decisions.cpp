#include "runtime/plan/fixed_decisions.h"

#include <algorithm>

#include "l2l/errors.h"

namespace l2l::runtime {
namespace {

// Gives the bytes of arenas that differ in their blocks' placements alone.
class ArenaBytes {
 public:
  ArenaBytes(const RunParts& parts, const Decisions& decisions)
      : parts_(parts),
        model_(with_policies(parts.model, decisions)),
        scratch_(scratch_of(model_, compile(parts.devices, model_, parts.execution.gradients))) {}

  Bytes operator()(std::vector<BlockPlacement> placements) const {
    return ArenaPlan(model_, scratch_, execution_with(parts_, std::move(placements))).bytes();
  }

 private:
  const RunParts& parts_;
  const models::Model model_;
  const ArenaPlan::Scratch scratch_;
};

std::vector<BlockPlacement> placements_with(const RunParts& parts, int on_device) {
  std::vector<BlockPlacement> placements = split_stashes(parts.model.blocks(), on_device);
  keep_weights(placements, blocks_that_come_again(parts.model),
               static_cast<int>(std::max<std::int64_t>(0, parts.options.transfer.resident_layers)));
  for (BlockPlacement& placement : placements) {
    if (parts.model.rebuilds) placement.stash = StashPlace::none;
  }
  return placements;
}

}  // namespace

Decisions fixed_decisions(const RunParts& parts) {
  const RecomputeOptions& recompute = parts.options.recompute;
  if (recompute.leaves_choice()) {
    throw Error("recompute.policy = \"" + recompute.policy + "\" leaves open what blocks do: plan_run() chooses it");
  }
  Decisions decisions;
  if (!parts.model.rebuilds) {
    decisions = uniform_policy(parts.model, compiler::remat::parse_policy(recompute.policy));
  }
  decisions.placements = fixed_placements(parts, decisions);
  return decisions;
}

std::vector<BlockPlacement> fixed_placements(const RunParts& parts, const Decisions& decisions) {
  const std::string& stash = parts.options.transfer.stash;
  const int blocks = parts.model.blocks();
  std::vector<BlockPlacement> all = placements_with(parts, stash == "host" ? 0 : blocks);
  const std::optional<DeviceLimit> limit = device_limit(parts);
  if (parts.model.rebuilds || stash != "auto" || !limit) return all;
  const ArenaBytes arena(parts, decisions);
  if (arena(all) <= limit->bytes) return all;
  int most = 0;
  for (int least_too_many = blocks; least_too_many - most > 1;) {
    const int middle = (most + least_too_many) / 2;
    (arena(placements_with(parts, middle)) <= limit->bytes ? most : least_too_many) = middle;
  }
  return placements_with(parts, most);
}

Decisions least_decisions(const RunParts& parts) {
  Decisions decisions = uniform_policy(parts.model, compiler::remat::Policy::full);
  decisions.placements = placements_with(parts, parts.options.transfer.stash == "device" ? parts.model.blocks() : 0);
  return decisions;
}

ExecutionPlan execution_with(const RunParts& parts, std::vector<BlockPlacement> placements) {
  ExecutionPlan execution = parts.execution;
  execution.placements = std::move(placements);
  return execution;
}

Bytes arena_bytes(const RunParts& parts, const Decisions& decisions) {
  return ArenaBytes(parts, decisions)(decisions.placements);
}

}  // namespace l2l::runtime

#include "runtime/plan/fixed_decisions.h"

#include <algorithm>

#include "l2l/errors.h"

namespace l2l::runtime {
namespace {

// A function of blocks' placements: the bytes of an arena with these, else as in `decisions`.
auto arena_bytes_by_placements(const RunParts& parts, const Decisions& decisions) {
  models::Model model = with_policies(parts.model, decisions);
  ArenaPlan::Scratch scratch = scratch_of(model, compile(parts.first_members(), model, parts.execution.gradients,
                                                         parts.execution.parts, parts.execution.summing()));
  return [&parts, model = std::move(model), scratch = std::move(scratch)](std::vector<BlockPlacement> placements) {
    return ArenaPlan(model, scratch, execution_with(parts, std::move(placements))).bytes();
  };
}

std::vector<BlockPlacement> placements_with(const RunParts& parts, int on_device) {
  std::vector<BlockPlacement> placements = split_stashes(parts.model.kept_inputs(), on_device);
  placements.resize(static_cast<std::size_t>(parts.model.blocks()), {.stash = StashPlace::none});
  keep_weights(placements, blocks_that_come_again(parts.model),
               static_cast<int>(std::max<std::int64_t>(0, parts.options.transfer.resident_layers)));
  return placements;
}

}  // namespace

Decisions fixed_decisions(const RunParts& parts) {
  const RecomputeOptions& recompute = parts.options.recompute;
  if (recompute.leaves_choice()) {
    throw Error("recompute.policy = \"" + recompute.policy + "\" leaves open what blocks do: plan_run() chooses it");
  }
  Decisions decisions;
  if (!parts.model.rebuilds()) {
    decisions = uniform_policy(parts.model, compiler::remat::parse_policy(recompute.policy));
  }
  decisions.placements = fixed_placements(parts, decisions);
  return decisions;
}

std::vector<BlockPlacement> fixed_placements(const RunParts& parts, const Decisions& decisions) {
  const std::string& stash = parts.options.transfer.stash;
  const int blocks = parts.model.kept_inputs();
  std::vector<BlockPlacement> all = placements_with(parts, stash == "host" ? 0 : blocks);
  const std::optional<DeviceLimit> limit = device_limit(parts);
  if (parts.model.keeps_no_input() || stash != "auto" || !limit) return all;
  const auto arena = arena_bytes_by_placements(parts, decisions);
  if (arena(all) <= limit->bytes) return all;
  int most = 0;
  for (int least_too_many = blocks; least_too_many - most > 1;) {
    const int middle = (most + least_too_many) / 2;
    (arena(placements_with(parts, middle)) <= limit->bytes ? most : least_too_many) = middle;
  }
  std::vector<BlockPlacement> fewest = placements_with(parts, most);
  return most > 0 || arena(fewest) <= arena(all) ? fewest : all;  // what leaves needs buffers to pass through, too
}

Decisions least_decisions(const RunParts& parts) {
  Decisions decisions = uniform_policy(parts.model, compiler::remat::Policy::full);
  decisions.placements =
      placements_with(parts, parts.options.transfer.stash == "device" ? parts.model.kept_inputs() : 0);
  return decisions;
}

ExecutionPlan execution_with(const RunParts& parts, std::vector<BlockPlacement> placements) {
  ExecutionPlan execution = parts.execution;
  execution.placements = std::move(placements);
  return execution;
}

Bytes arena_bytes(const RunParts& parts, const Decisions& decisions) {
  return arena_bytes_by_placements(parts, decisions)(decisions.placements);
}

}  // namespace l2l::runtime

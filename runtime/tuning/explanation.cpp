#include "runtime/tuning/explanation.h"

#include <array>
#include <cstdio>
#include <map>

namespace l2l::runtime {
namespace {

using compiler::Region;

std::string copy_time(StepCosts& costs, Bytes bytes) {
  return milliseconds(costs.copy(Direction::to_device, bytes).seconds);
}

std::string weights(const RunParts& parts, const Proposal& proposal, StepCosts& costs) {
  if (parts.execution.execution == Execution::resident) return "weights: of all layers on the device (resident)";
  const models::Model& model = parts.model;
  const std::vector<BlockPlacement>& placements = proposal.decisions.placements;
  Bytes bytes = 0;
  for (int block = 1; block <= model.blocks(); ++block) {
    if (placements[static_cast<std::size_t>(block - 1)].weights_stay) bytes += model.wire_bytes(model.block(block));
  }
  return "weights: of " + std::to_string(count_staying(placements)) + " of " + std::to_string(model.blocks()) +
         " blocks stay on the device between their visits (" + format_bytes(bytes) +
         "), those of the others cross the link twice (" +
         copy_time(costs, model.wire_bytes(model.block(model.blocks()))) + " each time)";
}

std::string layer_inputs(const RunParts& parts, const Proposal& proposal, StepCosts& costs) {
  const Bytes one = parts.model.activation_bytes();
  const auto live = static_cast<Bytes>(parts.execution.live_microbatches());
  const std::vector<BlockPlacement>& placements = proposal.decisions.placements;
  const auto on_device = static_cast<Bytes>(count_stashes(placements, StashPlace::device));
  const Bytes on_host = placements.size() - on_device;
  return "layer inputs: of " + std::to_string(on_device) + " blocks on the device (" +
         format_bytes(on_device * live * one) + "), of " + std::to_string(on_host) + " on the host (" +
         format_bytes(on_host * live * one) + "; " + copy_time(costs, one) + " back for each microbatch)";
}

// Of one program: `device` blocks keep its values there, `host` blocks in host memory.
std::string saved_values(const BlockCandidates& type, const BlockProgram& program, std::size_t device, std::size_t host,
                         StepCosts& costs) {
  std::string kept, again;
  for (const SavableValue& savable : type.values) {
    const compiler::Value& value = program.policy.visits.forward.value(savable.value);
    std::string& list = value.region == Region::saved ? kept : again;
    list += (list.empty() ? "" : ", ") + value.name + " (" + format_bytes(value.bytes()) + ", link " +
            copy_time(costs, value.bytes()) + ", recomputed in " + milliseconds(savable.recomputed) + ")";
  }
  std::string where = host == 0 ? "on the device" : "on the host";
  if (device > 0 && host > 0) where = "of " + std::to_string(device) + " on the device, of the others on the host";
  std::string text = "saved values: " + std::to_string(device + host) + " of " + std::to_string(type.blocks.size()) +
                     " blocks (\"" + program.policy.visits.forward.name + "\"), " + program.policy.name +
                     ": a microbatch takes " + milliseconds(program.forward.seconds) + " forward and " +
                     milliseconds(program.backward.seconds) + " backward";
  if (!kept.empty()) text += "; kept, " + where + ": " + kept;
  if (!again.empty()) text += "; recomputed: " + again;
  return text;
}

}  // namespace

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f ms", 1e3 * seconds);
  return text;
}

std::vector<std::string> explain(const RunParts& parts, const Candidates& candidates, const Proposal& proposal,
                                 StepCosts& costs) {
  std::vector<std::string> lines = {weights(parts, proposal, costs), layer_inputs(parts, proposal, costs)};
  for (std::size_t t = 0; t < candidates.types.size(); ++t) {
    const BlockCandidates& type = candidates.types[t];
    std::map<std::size_t, std::array<std::size_t, 2>> blocks;  // by program: on the device, on the host
    for (const BlockShare& share : proposal.shares[t]) {
      blocks[share.program][share.placement.stash == StashPlace::host] += share.blocks;
    }
    for (const auto& [program, counts] : blocks) {
      lines.push_back(saved_values(type, type.programs[program], counts[0], counts[1], costs));
    }
  }
  return lines;
}

}  // namespace l2l::runtime

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
    if (placements[static_cast<std::size_t>(block - 1)].weights_stay) {
      bytes += parts.execution.slices(model.wire_bytes(model.block(block))).room();
    }
  }
  const Bytes last = model.wire_bytes(model.block(model.blocks()));
  return "weights: of " + std::to_string(count_staying(placements)) + " of " + std::to_string(model.blocks()) +
         " blocks stay on the device between their visits (" + format_bytes(bytes) +
         "), those of the others cross the link twice (" + copy_time(costs, parts.execution.slices(last).bytes(0)) +
         " each time)";
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

// Blocks of one type that do the same: so many that keep its values on the device, and in host memory.
struct Alike {
  const BlockCandidates& type;
  const BlockProgram& program;
  std::size_t device = 0, host = 0;

  std::size_t blocks() const { return device + host; }
  // Where values are kept.
  std::string where() const {
    if (device > 0 && host > 0) return "of " + std::to_string(device) + " on the device, of the others on the host";
    return host == 0 ? "on the device" : "on the host";
  }
};

std::vector<Alike> alike(const Candidates& candidates, const Proposal& proposal) {
  std::vector<Alike> all;
  for (std::size_t t = 0; t < candidates.types.size(); ++t) {
    std::map<std::size_t, std::array<std::size_t, 2>> blocks;  // by program: on the device, on the host
    for (const BlockShare& share : proposal.shares[t]) {
      blocks[share.program][share.placement.stash == StashPlace::host] += share.blocks;
    }
    const BlockCandidates& type = candidates.types[t];
    for (const auto& [program, counts] : blocks) all.push_back({type, type.programs[program], counts[0], counts[1]});
  }
  return all;
}

std::string saved_values(const Alike& alike, StepCosts& costs) {
  const auto& [type, program, device, host] = alike;
  std::string kept, again;
  for (const SavableValue& savable : type.values) {
    const compiler::Value& value = program.policy.visits.forward.value(savable.value);
    std::string& list = value.region == Region::saved ? kept : again;
    list += (list.empty() ? "" : ", ") + value.name + " (" + format_bytes(value.bytes()) + ", link " +
            copy_time(costs, value.bytes()) + ", recomputed in " + milliseconds(savable.recomputed) + ")";
  }
  std::string text = "saved values: " + std::to_string(alike.blocks()) + " of " + std::to_string(type.blocks.size()) +
                     " blocks (\"" + program.policy.visits.forward.name + "\"), " + program.policy.name +
                     ": a microbatch takes " + milliseconds(program.forward.seconds) + " forward and " +
                     milliseconds(program.backward.seconds) + " backward";
  if (!kept.empty()) text += "; kept, " + alike.where() + ": " + kept;
  if (!again.empty()) text += "; recomputed: " + again;
  return text;
}

// "4 blocks keep 3 of 12 values (96.0 KiB a microbatch, on the device)"
std::string summarize(const Alike& alike) {
  std::size_t count = 0;
  Bytes bytes = 0;
  for (const SavableValue& savable : alike.type.values) {
    const compiler::Value& value = alike.program.policy.visits.forward.value(savable.value);
    if (value.region != Region::saved) continue;
    ++count;
    bytes += value.bytes();
  }
  const bool one = alike.blocks() == 1;
  const std::string blocks = std::to_string(alike.blocks()) + (one ? " block" : " blocks");
  if (count == 0) return blocks + (one ? " recomputes" : " recompute") + " all values";
  return blocks + (one ? " keeps " : " keep ") + std::to_string(count) + " of " +
         std::to_string(alike.type.values.size()) + " values (" + format_bytes(bytes) + " a microbatch, " +
         alike.where() + ")";
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
  for (const Alike& blocks : alike(candidates, proposal)) lines.push_back(saved_values(blocks, costs));
  return lines;
}

std::string summarize(const Candidates& candidates, const Proposal& proposal) {
  std::string text;
  for (const Alike& blocks : alike(candidates, proposal)) text += (text.empty() ? "" : "; ") + summarize(blocks);
  return text;
}

}  // namespace l2l::runtime

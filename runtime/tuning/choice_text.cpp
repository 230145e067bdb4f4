#include "runtime/tuning/choice_text.h"

#include <cstdio>
#include <map>

namespace l2l::runtime {
namespace {

using compiler::Region;

class Explanation {
 public:
  Explanation(const RunPlan& plan, const std::vector<BlockChain::Type>& types, const BlockChain::Candidate& candidate,
              StepCosts& costs)
      : plan_(plan), types_(types), candidate_(candidate), costs_(costs) {}

  std::string weights() const;
  std::string layer_inputs() const;
  std::vector<std::string> values() const;

 private:
  std::string values_of(const BlockChain::Type& type, const BlockOption& option, std::size_t blocks,
                        const std::string& where) const;
  std::string copy_time(Bytes bytes) const;
  int blocks() const { return plan_.model.blocks(); }

  const RunPlan& plan_;
  const std::vector<BlockChain::Type>& types_;
  const BlockChain::Candidate& candidate_;
  StepCosts& costs_;
};

std::string Explanation::copy_time(Bytes bytes) const {
  return milliseconds(costs_.copy(Direction::to_device, bytes).value_or(Cost{}).seconds);
}

std::string Explanation::weights() const {
  if (plan_.execution.execution == Execution::resident) return "weights: of all layers on the device (resident)";
  const std::vector<BlockPlace>& places = candidate_.arrangement.places;
  const Bytes one = plan_.model.wire_bytes(plan_.model.block(blocks()));
  Bytes bytes = 0;
  for (int block = 1; block <= blocks(); ++block) {
    if (places[static_cast<std::size_t>(block - 1)].weights_stay) {
      bytes += plan_.model.wire_bytes(plan_.model.block(block));
    }
  }
  return "weights: of " + std::to_string(count_staying(places)) + " of " + std::to_string(blocks()) +
         " blocks stay on the device between their visits (" + format_bytes(bytes) +
         "), those of the others cross the link twice (" + copy_time(one) + " each time)";
}

std::string Explanation::layer_inputs() const {
  const Bytes one = plan_.model.activation_bytes();
  const auto live = static_cast<Bytes>(plan_.execution.live_microbatches());
  const std::vector<BlockPlace>& places = candidate_.arrangement.places;
  const auto on_device = static_cast<Bytes>(count_stashes(places, StashPlace::device));
  const Bytes on_host = places.size() - on_device;
  return "layer inputs: of " + std::to_string(on_device) + " blocks on the device (" +
         format_bytes(on_device * live * one) + "), of " + std::to_string(on_host) + " on the host (" +
         format_bytes(on_host * live * one) + "; " + copy_time(one) + " back for each microbatch)";
}

std::string Explanation::values_of(const BlockChain::Type& type, const BlockOption& option, std::size_t blocks,
                                   const std::string& where) const {
  std::string kept, again;
  for (const ValueWorth& worth : type.values) {
    const compiler::Value& value = option.policy.visits.forward.value(worth.value);
    std::string& list = value.region == Region::saved ? kept : again;
    list += (list.empty() ? "" : ", ") + value.name + " (" + format_bytes(value.bytes()) + ", link " +
            copy_time(value.bytes()) + ", again " + milliseconds(worth.again) + ")";
  }
  std::string text = "saved values: " + std::to_string(blocks) + " of " + std::to_string(type.blocks.size()) +
                     " blocks (\"" + option.policy.visits.forward.name + "\"), " + option.policy.name +
                     ": a microbatch takes " + milliseconds(option.forward.seconds) + " up and " +
                     milliseconds(option.backward.seconds) + " down";
  if (!kept.empty()) text += "; kept, " + where + ": " + kept;
  if (!again.empty()) text += "; made again: " + again;
  return text;
}

// A line for each option, whatever its blocks do with their weights.
std::vector<std::string> Explanation::values() const {
  std::vector<std::string> lines;
  for (std::size_t t = 0; t < types_.size(); ++t) {
    std::map<std::size_t, std::size_t> device, host;  // option -> blocks
    for (std::size_t i = 0; i < types_[t].ways.size(); ++i) {
      const BlockChain::Way& way = types_[t].ways[i];
      (way.place.stash == StashPlace::host ? host : device)[way.option] += candidate_.ways[t][i];
    }
    for (std::size_t option = 0; option < types_[t].options.size(); ++option) {
      const std::size_t here = device[option], there = host[option];
      if (here + there == 0) continue;
      std::string where = there == 0 ? "on the device" : "on the host";
      if (here > 0 && there > 0) where = "of " + std::to_string(here) + " on the device, of the others on the host";
      lines.push_back(values_of(types_[t], types_[t].options[option], here + there, where));
    }
  }
  return lines;
}

}  // namespace

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f ms", 1e3 * seconds);
  return text;
}

std::vector<std::string> explain(const RunPlan& plan, const std::vector<BlockChain::Type>& types,
                                 const BlockChain::Candidate& candidate, StepCosts& costs) {
  const Explanation explanation(plan, types, candidate, costs);
  std::vector<std::string> lines = {explanation.weights(), explanation.layer_inputs()};
  for (std::string& line : explanation.values()) lines.push_back(std::move(line));
  return lines;
}

}  // namespace l2l::runtime

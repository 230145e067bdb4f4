#include "runtime/block_chain.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "core/workers.h"
#include "device/recompute/chain.h"

namespace l2l::runtime {

using device::graph::Graph;
using device::graph::Region;
using device::recompute::ChainAnswer;
using device::recompute::ChainBudget;
using device::recompute::LayerOption;
using device::recompute::to_nanoseconds;

namespace {

constexpr int kMostTries = 12;  // plans of an arena until one fits

Bytes above(Bytes bytes, Bytes limit) { return bytes - std::min(bytes, limit); }

}  // namespace

BlockChain::BlockChain(const RunPlan& plan, StepCosts& costs) : plan_(plan), costs_(costs) {
  std::map<int, Type> types;
  for (int block = 1; block <= plan.model.blocks(); ++block) {
    const int type = plan.model.type_of[static_cast<std::size_t>(plan.model.block(block))];
    types[type].type = type;
    types[type].blocks.push_back(block);
  }
  for (auto& [type, blocks] : types) types_.push_back(std::move(blocks));
}

void BlockChain::measure() {
  for (Type& type : types_) {
    if (type.options.empty()) type.options = menu_for(type).options(forward_of(type));
  }
}

bool BlockChain::computes_here() {
  measure();
  return runtime::computes_here(types_.back().options.front().forward);
}

// On a host device without a throttled link, copies and compute share the cores; else each has its own time.
LayerOption BlockChain::layer_option(const BlockOption& option, StashPlace stash) {
  LayerOption layer;
  const bool host = stash == StashPlace::host;
  const Bytes bytes = option.saved + plan_.model.activation_bytes();
  const auto copies = [&](Direction direction) {
    const Bytes input = plan_.model.activation_bytes();
    return host ? copy_seconds(direction, input) + copy_seconds(direction, option.saved) : 0;
  };
  const double out = copies(Direction::to_host), back = copies(Direction::to_device);
  const bool shared = plan_.device->uses_host_memory() && plan_.options.transfer.link_bandwidth == 0;
  const double cores = shared ? static_cast<double>(available_cores()) / plan_.execution.devices : 1;
  const auto visit = [&](const Cost& compute, double copies) {
    const double alone = std::max(compute.seconds, (compute.processor + copies) / cores);
    return to_nanoseconds(microbatches() * (shared ? alone : compute.seconds));
  };
  layer.forward = visit(option.forward, out);
  layer.backward = visit(option.backward, back);
  if (!shared) {
    layer.kept_d2h = to_nanoseconds(microbatches() * out);
    layer.kept_h2d = to_nanoseconds(microbatches() * back);
  }
  const Bytes all = bytes * static_cast<Bytes>(plan_.execution.live_microbatches());
  (host ? layer.host : layer.device) = all;
  const Bytes slots = 3 + static_cast<Bytes>(plan_.execution.prefetch);  // on their way out and back
  layer.arena = option.scratch + (host ? slots * option.saved : 0);
  return layer;
}

std::vector<device::recompute::LayerType> BlockChain::layers(StashPlace stash) {
  measure();
  std::vector<device::recompute::LayerType> chain;
  for (const Type& type : types_) {
    device::recompute::LayerType& layers = chain.emplace_back();
    layers.layers = type.blocks.size();
    const LayerIndex layer = plan_.model.block(type.blocks.front());
    if (plan_.execution.execution == Execution::relay) {
      const double wire = copy_seconds(Direction::to_device, plan_.model.wire_bytes(layer));
      layers.weights_up_h2d = layers.weights_down_h2d = to_nanoseconds(wire);
    }
    const Bytes gradients = plan_.model.layer_bytes(layer, plan_.execution.gradients);
    layers.gradients_d2h = to_nanoseconds(copy_seconds(Direction::to_host, gradients));
    for (const BlockOption& option : type.options) layers.options.push_back(layer_option(option, stash));
  }
  return chain;
}

// How many layers of a type take an option: its first blocks take the first ones, which keep least.
RecomputationChoice BlockChain::spread(const device::recompute::ChainChoice& choice, StashPlace stash) const {
  RecomputationChoice result;
  result.stash = stash;
  result.recomputation.of_block.resize(static_cast<std::size_t>(plan_.model.blocks()));
  for (std::size_t t = 0; t < types_.size(); ++t) {
    auto block = types_[t].blocks.begin();
    for (std::size_t option = 0; option < types_[t].options.size(); ++option) {
      const std::size_t layers = choice.layers[t][option];
      if (layers == 0) continue;
      result.recomputation.policies.push_back(types_[t].options[option].policy);
      result.recomputation.explanation.push_back(explain(types_[t], types_[t].options[option], layers, stash));
      for (std::size_t i = 0; i < layers; ++i) {
        result.recomputation.of_block[static_cast<std::size_t>(*block++ - 1)] =
            static_cast<int>(result.recomputation.policies.size()) - 1;
      }
    }
  }
  return result;
}

std::string BlockChain::explain(const Type& type, const BlockOption& option, std::size_t layers,
                                StashPlace stash) const {
  std::string kept, again;
  const Graph& forward = forward_of(type);
  for (const device::graph::ValueId id : values_to_save(forward, device::recompute::Policy::none)) {
    const device::graph::Value& now = option.policy.visits.forward.value(id);
    std::string& list = now.region == Region::saved ? kept : again;
    list += (list.empty() ? "" : ", ") + now.name + " (" + format_bytes(now.bytes()) + ")";
  }
  std::string text = std::to_string(layers) + " of " + std::to_string(type.blocks.size()) + " blocks (\"" +
                     forward.name + "\"), " + option.policy.name + ": a microbatch takes " +
                     milliseconds(option.forward.seconds) + " up and " + milliseconds(option.backward.seconds) +
                     " down";
  if (!kept.empty()) text += "; on the " + std::string(name_of(stash)) + ": " + kept;
  if (!again.empty()) text += "; recomputed: " + again;
  return text;
}

Bytes BlockChain::arena_of(const RecomputationChoice& choice) const {
  models::Model model = plan_.model;
  apply(choice.recomputation, model);
  std::vector<std::unique_ptr<Programs>> programs;
  programs.push_back(std::make_unique<Programs>(*plan_.device, model, plan_.execution.gradients));
  ExecutionPlan execution = plan_.execution;
  execution.stash = choice.stash;
  return ArenaPlan(model, programs, execution).bytes();
}

// The arena shares memory in ways that the sums of a chain do not see: budgets move until everything fits.
std::optional<BlockChain::Candidate> BlockChain::shortest(StashPlace stash, const Limits& limits) {
  const std::vector<device::recompute::LayerType> chain = layers(stash);
  ChainBudget budget{limits.device, limits.host};
  for (int attempt = 0; attempt < kMostTries; ++attempt) {
    const ChainAnswer answer = device::recompute::choose(chain, budget);
    if (!answer.choice) return std::nullopt;
    RecomputationChoice result = spread(*answer.choice, stash);
    const Bytes arena = arena_of(result), host = answer.choice->host;
    const Bytes excess = std::max(above(arena, limits.device), above(arena + host, limits.together));
    if (excess == 0) return Candidate{std::move(result), answer.choice->layers, answer.choice->time};
    Bytes& moved = arena <= limits.device && stash == StashPlace::host ? budget.host : budget.device;
    const Bytes used = &moved == &budget.host ? host : answer.choice->device;
    if (used <= excess) return std::nullopt;
    moved = used - excess;
  }
  return std::nullopt;
}

std::optional<BlockChain::Candidate> BlockChain::uniform(StashPlace stash, const std::string& policy,
                                                         const Limits& limits) {
  device::recompute::ChainChoice choice;
  const std::vector<device::recompute::LayerType> chain = layers(stash);
  for (std::size_t t = 0; t < types_.size(); ++t) {
    const auto named = std::find_if(types_[t].options.begin(), types_[t].options.end(),
                                    [&](const BlockOption& option) { return option.policy.name == policy; });
    const std::size_t option =
        named == types_[t].options.end() ? 0 : static_cast<std::size_t>(named - types_[t].options.begin());
    choice.layers.emplace_back(types_[t].options.size())[option] = chain[t].layers;
    choice.host += chain[t].layers * chain[t].options[option].host;
    choice.time += chain[t].layers * time_of(chain[t], chain[t].options[option]);
  }
  RecomputationChoice result = spread(choice, stash);
  const Bytes arena = arena_of(result);
  if (choice.host > limits.host || arena > limits.device || arena + choice.host > limits.together) return std::nullopt;
  return Candidate{std::move(result), choice.layers, choice.time};
}

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f ms", 1e3 * seconds);
  return text;
}

}  // namespace l2l::runtime

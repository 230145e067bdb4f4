#include "runtime/tuning/block_chain.h"

#include <algorithm>
#include <map>

#include "compiler/remat/chain.h"
#include "core/workers.h"

namespace l2l::runtime {

using compiler::Graph;
using compiler::remat::ChainBudget;
using compiler::remat::ChainChoice;
using compiler::remat::LayerOption;
using compiler::remat::LayerType;
using compiler::remat::to_nanoseconds;

namespace {

constexpr int kMostTries = 12;  // plans of an arena until one fits

Bytes above(Bytes bytes, Bytes limit) { return bytes - std::min(bytes, limit); }

// Whether `a` needs no more of anything than `b`.
bool no_worse(const LayerType& type, const LayerOption& a, const LayerOption& b) {
  return time_of(type, a) <= time_of(type, b) && a.device <= b.device && a.host <= b.host && a.arena <= b.arena;
}

}  // namespace

BlockChain::BlockChain(const RunPlan& plan, const TransferOptions& wanted, StepCosts& costs)
    : plan_(plan), wanted_(wanted), costs_(costs) {
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
    if (!type.options.empty()) continue;
    BlockMenu menu = menu_for(type);
    type.values = menu.values(forward_of(type));
    type.options = menu.options(forward_of(type), type.values);
    type.ways = ways_of(type);
  }
}

bool BlockChain::computes_here() {
  measure();
  return runtime::computes_here(types_.back().options.front().forward);
}

std::vector<BlockChain::Way> BlockChain::ways_of(const Type& type) {
  const bool relay = plan_.execution.execution == Execution::relay;
  std::vector<Way> ways;
  for (std::size_t option = 0; option < type.options.size(); ++option) {
    for (const StashPlace stash : {StashPlace::device, StashPlace::host}) {
      if (wanted_.stash != "auto" && wanted_.stash != name_of(stash)) continue;
      for (const bool stay : {false, true}) {
        if (stay && (!relay || wanted_.resident_layers != TransferOptions::kChosen)) continue;
        Way& way = ways.emplace_back(Way{option, {stash, stay}, {}});
        way.load = load_of(type, way);
      }
    }
  }
  return ways;
}

Bytes BlockChain::wire_bytes(const Type& type) const {
  if (plan_.execution.execution != Execution::relay) return 0;
  return plan_.model.wire_bytes(plan_.model.block(type.blocks.front()));
}

// On a host device without a throttled link, copies and compute share the cores; else each has its own time.
LayerOption BlockChain::load_of(const Type& type, const Way& way) {
  const BlockOption& option = type.options[way.option];
  const bool host = way.place.stash == StashPlace::host;
  const auto stash = [&](Direction direction) {
    if (!host) return 0.0;
    return microbatches() *
           (copy_seconds(direction, plan_.model.activation_bytes()) + copy_seconds(direction, option.saved));
  };
  const double out = stash(Direction::to_host), back = stash(Direction::to_device), weights = wire_seconds(type);
  const double cores = static_cast<double>(available_cores()) / plan_.execution.devices;
  const auto visit = [&](const Cost& of_one, double copies) {
    const Cost compute = microbatches() * of_one;
    const double seconds =
        shares_cores() ? std::max(compute.seconds, (compute.processor + copies) / cores) : compute.seconds;
    return to_nanoseconds(seconds);
  };
  LayerOption load;
  load.weights_stay = way.place.weights_stay;
  load.forward = visit(option.forward, out + weights);
  load.backward = visit(option.backward, back + (load.weights_stay ? 0 : weights));
  if (!shares_cores()) {
    load.kept_d2h = to_nanoseconds(out);
    load.kept_h2d = to_nanoseconds(back);
  }
  (host ? load.host : load.device) = kept(option);
  if (load.weights_stay) load.device += wire_bytes(type);
  // On their way out and back, which may lie in the same memory.
  const Bytes slots = std::max<Bytes>(2, 1 + static_cast<Bytes>(plan_.execution.prefetch));
  load.arena = std::max(option.forward_scratch, option.backward_scratch) + (host ? slots * option.saved : 0);
  return load;
}

// Without options.
LayerType BlockChain::layers_of(const Type& type) {
  LayerType layers;
  layers.layers = type.blocks.size();
  layers.weights_forward_h2d = layers.weights_backward_h2d = to_nanoseconds(wire_seconds(type));
  const LayerIndex layer = plan_.model.block(type.blocks.front());
  const Bytes gradients = plan_.model.layer_bytes(layer, plan_.execution.gradients);
  layers.gradients_d2h = to_nanoseconds(copy_seconds(Direction::to_host, gradients));
  return layers;
}

bool BlockChain::is(const Type& type, const Way& way, const Alike& alike) const {
  if (alike.stash && way.place.stash != *alike.stash) return false;
  if (alike.policy.empty()) return true;
  const auto found = std::find_if(type.options.begin(), type.options.end(),
                                  [&](const BlockOption& option) { return option.policy.name == alike.policy; });
  return way.option == (found == type.options.end() ? 0 : static_cast<std::size_t>(found - type.options.begin()));
}

// A way that needs as much of everything as another one is left out.
BlockChain::Offer BlockChain::offer(const Alike& alike) {
  Offer offer;
  for (const Type& type : types_) {
    LayerType& layers = offer.chain.emplace_back(layers_of(type));
    std::vector<std::size_t>& taken = offer.ways.emplace_back();
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < type.ways.size(); ++i) {
      if (is(type, type.ways[i], alike)) all.push_back(i);
    }
    const auto beats = [&](std::size_t i, std::size_t j) {
      const LayerOption &a = type.ways[i].load, &b = type.ways[j].load;
      return i != j && no_worse(layers, a, b) && (i < j || !no_worse(layers, b, a));
    };
    for (const std::size_t i : all) {
      if (std::any_of(all.begin(), all.end(), [&](std::size_t other) { return beats(other, i); })) continue;
      taken.push_back(i);
      layers.options.push_back(type.ways[i].load);
    }
  }
  return offer;
}

Arrangement BlockChain::arrange(const std::vector<std::vector<std::size_t>>& ways) const {
  const auto blocks = static_cast<std::size_t>(plan_.model.blocks());
  Arrangement result;
  result.recomputation.of_block.resize(blocks);
  result.places.resize(blocks);
  for (std::size_t t = 0; t < types_.size(); ++t) {
    std::map<std::size_t, int> policy_of;  // by option
    auto block = types_[t].blocks.begin();
    for (const std::size_t way : interleaved(ways[t])) {
      const Way& its = types_[t].ways[way];
      const auto [known, fresh] =
          policy_of.try_emplace(its.option, static_cast<int>(result.recomputation.policies.size()));
      if (fresh) result.recomputation.policies.push_back(types_[t].options[its.option].policy);
      const auto index = static_cast<std::size_t>(*block++ - 1);
      result.recomputation.of_block[index] = known->second;
      result.places[index] = its.place;
    }
  }
  const int come_again = blocks_that_come_again(plan_.model);
  if (wanted_.resident_layers > 0) keep_weights(result.places, come_again, static_cast<int>(wanted_.resident_layers));
  if (come_again < plan_.model.blocks()) result.places.back().weights_stay = false;
  return result;
}

Bytes BlockChain::crossing_of(const Type& type, const Way& way) const {
  const Bytes weights = (way.place.weights_stay ? 1 : 2) * wire_bytes(type);
  if (way.place.stash == StashPlace::device) return weights;
  const Bytes stash = plan_.model.activation_bytes() + type.options[way.option].saved;
  return weights + 2 * stash * static_cast<Bytes>(plan_.execution.microbatches);
}

BlockChain::Candidate BlockChain::candidate_of(const Offer& offer, const ChainChoice& choice) const {
  Candidate candidate{.arrangement = {}, .ways = {}, .time = choice.time, .crossing = 0};
  for (std::size_t t = 0; t < types_.size(); ++t) {
    std::vector<std::size_t>& counts = candidate.ways.emplace_back(types_[t].ways.size());
    for (std::size_t i = 0; i < offer.ways[t].size(); ++i) {
      counts[offer.ways[t][i]] = choice.layers[t][i];
      candidate.crossing += choice.layers[t][i] * crossing_of(types_[t], types_[t].ways[offer.ways[t][i]]);
    }
  }
  candidate.arrangement = arrange(candidate.ways);
  return candidate;
}

Bytes BlockChain::arena_of(const Candidate& candidate) const {
  models::Model model = plan_.model;
  apply(candidate.arrangement.recomputation, model);
  ArenaPlan::Scratch scratch = scratch_of(plan_.model, plan_.programs, Blocks::without);
  for (std::size_t t = 0; t < types_.size(); ++t) {
    for (std::size_t way = 0; way < candidate.ways[t].size(); ++way) {
      if (candidate.ways[t][way] == 0) continue;
      const BlockOption& option = types_[t].options[types_[t].ways[way].option];
      scratch[Phase::up] = std::max(scratch[Phase::up], option.forward_scratch);
      scratch[Phase::down] = std::max(scratch[Phase::down], option.backward_scratch);
    }
  }
  ExecutionPlan execution = plan_.execution;
  execution.places = candidate.arrangement.places;
  return ArenaPlan(model, scratch, execution).bytes();
}

// The arena shares memory in ways that the sums of a chain do not see: budgets move until everything fits.
std::optional<BlockChain::Candidate> BlockChain::shortest(const Alike& alike, const Limits& limits) {
  measure();
  const Offer offer = this->offer(alike);
  ChainBudget budget{limits.device, limits.host};
  for (int attempt = 0; attempt < kMostTries; ++attempt) {
    const std::optional<ChainChoice> choice = compiler::remat::choose(offer.chain, budget);
    if (!choice) return std::nullopt;
    Candidate candidate = candidate_of(offer, *choice);
    const Bytes arena = arena_of(candidate), device = choice->device, host = choice->host;
    const Bytes excess = std::max(above(arena, limits.device), above(arena + host, limits.together));
    if (excess == 0) return candidate;
    const bool host_gives = arena <= limits.device && host > device;
    const Bytes used = host_gives ? host : device;
    if (used <= excess) return std::nullopt;
    (host_gives ? budget.host : budget.device) = used - excess;
  }
  return std::nullopt;
}

}  // namespace l2l::runtime

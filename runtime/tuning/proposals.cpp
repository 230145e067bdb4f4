#include "runtime/tuning/proposals.h"

#include <algorithm>
#include <map>

#include "core/host_memory.h"
#include "core/workers.h"
#include "runtime/plan/fixed_decisions.h"
#include "runtime/plan/memory_contract.h"

namespace l2l::runtime {
namespace {

using compiler::remat::ChainBudget;
using compiler::remat::ChainChoice;
using compiler::remat::LayerOption;
using compiler::remat::LayerType;
using compiler::remat::to_nanoseconds;

constexpr Bytes kNoLimit = Bytes{1} << 50;
constexpr int kMostTries = 12;  // plans of an arena until one fits
constexpr std::size_t kMostProposals = 6;

Bytes above(Bytes bytes, Bytes limit) { return bytes - std::min(bytes, limit); }

// The blocks as a chain whose layers each take one of the programs at one of the placements.
class BlockChain {
 public:
  BlockChain(const RunParts& parts, const Candidates& candidates, const Constraint& constraint)
      : parts_(parts), candidates_(candidates), constraint_(constraint) {
    for (const BlockCandidates& type : candidates.types) add(type);
  }

  // Nothing: no choice keeps within the budget.
  std::optional<ChainChoice> solve(const ChainBudget& budget) const { return compiler::remat::choose(chain_, budget); }

  Proposal proposal(const ChainChoice& choice) const {
    Proposal proposal;
    proposal.time = choice.time;
    for (std::size_t t = 0; t < choices_.size(); ++t) {
      Shares& shares = proposal.shares.emplace_back();
      for (std::size_t i = 0; i < choices_[t].size(); ++i) {
        if (choice.layers[t][i] == 0) continue;
        shares.push_back(choices_[t][i]);
        shares.back().blocks = choice.layers[t][i];
        proposal.crossing += shares.back().blocks * crossing_of(candidates_.types[t], shares.back());
      }
    }
    proposal.decisions = decisions_of(proposal.shares);
    return proposal;
  }

  Bytes arena_bytes(const Proposal& proposal) const {
    ArenaPlan::Scratch scratch = candidates_.scratch;
    for (std::size_t t = 0; t < proposal.shares.size(); ++t) {
      for (const BlockShare& share : proposal.shares[t]) {
        const BlockProgram& program = candidates_.types[t].programs[share.program];
        scratch[Phase::forward] = std::max(scratch[Phase::forward], program.forward_scratch);
        scratch[Phase::backward] = std::max(scratch[Phase::backward], program.backward_scratch);
      }
    }
    return ArenaPlan(with_policies(parts_.model, proposal.decisions), scratch,
                     execution_with(parts_, proposal.decisions.placements))
        .bytes();
  }

 private:
  using Shares = std::vector<BlockShare>;

  std::vector<std::size_t> allowed_programs(const BlockCandidates& type) const {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < type.programs.size(); ++i) {
      if (constraint_.policy == type.programs[i].policy.name) return {i};
      all.push_back(i);
    }
    return constraint_.policy.empty() ? all : std::vector<std::size_t>{0};
  }

  Shares choices(const BlockCandidates& type) const {
    const TransferOptions& set = parts_.options.transfer;
    // What one rank finds best is not what another does, and all make the same visits where weights are sharded.
    const bool may_stay = parts_.execution.execution == Execution::relay &&
                          set.resident_layers == TransferOptions::kChosen && !parts_.store.shards_wires();
    Shares choices;
    for (const std::size_t program : allowed_programs(type)) {
      for (const StashPlace stash : {StashPlace::device, StashPlace::host}) {
        if (set.stash != "auto" && set.stash != name_of(stash)) continue;
        if (constraint_.stash && stash != *constraint_.stash) continue;
        choices.push_back({program, {stash, false}, 0});
        if (may_stay) choices.push_back({program, {stash, true}, 0});
      }
    }
    return choices;
  }

  void add(const BlockCandidates& type) {
    LayerType layers;
    layers.layers = type.blocks.size();
    layers.weights_forward_h2d = layers.weights_backward_h2d = to_nanoseconds(type.wire_seconds);
    layers.gradients_d2h = to_nanoseconds(type.gradient_seconds);
    choices_.push_back(choices(type));
    for (const BlockShare& choice : choices_.back()) layers.options.push_back(load_of(type, choice));
    chain_.push_back(std::move(layers));
  }

  // Of a block's weights; empty where they are on the device anyway.
  transfer::WireSlices slices(const BlockCandidates& type) const {
    if (parts_.execution.execution == Execution::resident) return {};
    return parts_.execution.slices(parts_.model.wire_bytes(parts_.model.block(type.blocks.front())));
  }

  // On a host device without a throttled link, copies and compute share the cores; else each has its own time.
  LayerOption load_of(const BlockCandidates& type, const BlockShare& choice) const {
    const ExecutionPlan& execution = parts_.execution;
    const BlockProgram& program = type.programs[choice.program];
    const bool host = choice.placement.stash == StashPlace::host;
    const bool shares_cores = parts_.device->uses_host_memory() && parts_.options.transfer.link_bandwidth == 0;
    const double cores = static_cast<double>(available_cores()) / execution.devices();
    const double copies = host ? execution.microbatches : 0;
    const double out = copies * (type.input_copy.to_host + program.saved_copy.to_host);
    const double back = copies * (type.input_copy.to_device + program.saved_copy.to_device);
    const auto visit = [&](const Cost& of_one, double copied) {
      const Cost compute = execution.microbatches * of_one;
      return to_nanoseconds(shares_cores ? std::max(compute.seconds, (compute.processor + copied) / cores)
                                         : compute.seconds);
    };
    LayerOption load;
    load.weights_stay = choice.placement.weights_stay;
    load.forward = visit(program.forward, out + type.wire_seconds);
    load.backward = visit(program.backward, back + (load.weights_stay ? 0 : type.wire_seconds));
    if (!shares_cores) {
      load.kept_d2h = to_nanoseconds(out);
      load.kept_h2d = to_nanoseconds(back);
    }
    (host ? load.host : load.device) =
        (parts_.model.activation_bytes() + program.saved) * static_cast<Bytes>(execution.live_microbatches());
    if (load.weights_stay) load.device += slices(type).room();
    // On their way out and back, which may lie in the same memory.
    const Bytes slots = std::max<Bytes>(2, 1 + static_cast<Bytes>(execution.prefetch));
    load.arena = std::max(program.forward_scratch, program.backward_scratch) + (host ? slots * program.saved : 0);
    return load;
  }

  Bytes crossing_of(const BlockCandidates& type, const BlockShare& choice) const {
    const Bytes weights = (choice.placement.weights_stay ? 1 : 2) * slices(type).bytes(0);
    if (choice.placement.stash == StashPlace::device) return weights;
    const Bytes stash = parts_.model.activation_bytes() + type.programs[choice.program].saved;
    return weights + 2 * stash * static_cast<Bytes>(parts_.execution.microbatches);
  }

  Decisions decisions_of(const std::vector<Shares>& shares) const {
    const auto blocks = static_cast<std::size_t>(parts_.model.blocks());
    Decisions decisions;
    decisions.policy_of.resize(blocks);
    decisions.placements.resize(blocks);
    for (std::size_t t = 0; t < shares.size(); ++t) {
      const BlockCandidates& type = candidates_.types[t];
      std::vector<std::size_t> counts;
      for (const BlockShare& share : shares[t]) counts.push_back(share.blocks);
      std::map<std::size_t, int> policy_of;  // by program
      auto block = type.blocks.begin();
      for (const std::size_t next : interleaved(counts)) {
        const BlockShare& share = shares[t][next];
        const auto [known, fresh] = policy_of.try_emplace(share.program, static_cast<int>(decisions.policies.size()));
        if (fresh) decisions.policies.push_back(type.programs[share.program].policy);
        const auto index = static_cast<std::size_t>(*block++ - 1);
        decisions.policy_of[index] = known->second;
        decisions.placements[index] = share.placement;
      }
    }
    const std::pair<int, int> come_again = blocks_that_come_again(parts_.model);
    const auto staying = static_cast<int>(parts_.options.transfer.resident_layers);
    if (staying > 0) keep_weights(decisions.placements, come_again, staying);
    for (int block = 1; block <= parts_.model.blocks(); ++block) {
      if (block >= come_again.first && block <= come_again.second) continue;
      decisions.placements[static_cast<std::size_t>(block - 1)].weights_stay = false;
    }
    return decisions;
  }

  const RunParts& parts_;
  const Candidates& candidates_;
  const Constraint& constraint_;
  std::vector<LayerType> chain_;
  std::vector<Shares> choices_;  // [type][option of the chain]
};

}  // namespace

// Host memory: what the run leaves of the machine for the stash of each device; where devices take host memory, for
// their arenas, too. It is not theirs alone: of what options set no limit to, a quarter, or what takes least.
MemoryLimits memory_limits(const RunParts& parts) {
  const auto devices = static_cast<Bytes>(parts.execution.devices());
  const Decisions least = least_decisions(parts);
  const HostStaging staging = host_staging(parts.model, execution_with(parts, least.placements));
  Bytes needed = 0;
  for (const ContractLine& line : host_lines(parts, staging, /*arena=*/0)) needed += line.bytes;
  needed -= devices * staging.stash;
  const Bytes free = above(HostMemory().capacity(parts.options.rank.neighbours).bytes, needed) / devices;
  const Bytes least_device = arena_bytes(parts, least), least_host = staging.stash;
  const auto share = [&](Bytes least_needed) { return std::min(free, std::max(free / 4, least_needed)); };
  const std::optional<DeviceLimit> device = device_limit(parts);
  const Bytes set = parts.options.eps.stash_memory;
  MemoryLimits limits{.device = device ? device->bytes : kNoLimit,
                      .host = set > 0 ? std::min(free, set / devices) : share(least_host),
                      .together = kNoLimit};
  if (parts.device->uses_host_memory()) {
    const bool device_is_set = parts.options.device.memory > 0;
    if (!device_is_set) limits.device = std::min(limits.device, share(least_device + least_host));
    limits.together = device_is_set || set > 0 ? free : share(least_device + least_host);
    limits.device = std::min(limits.device, limits.together);
  }
  const auto holds = [&](Bytes on_device, Bytes on_host) {
    return on_device <= limits.device && on_host <= limits.host && on_device + on_host <= limits.together;
  };
  limits.leave_enough = holds(least_device, least_host);
  if (!limits.leave_enough && parts.options.transfer.stash == "auto" && !parts.model.keeps_no_input()) {
    Decisions on_device = least;
    on_device.placements = fixed_placements(parts, least);
    limits.leave_enough = holds(arena_bytes(parts, on_device),
                                host_staging(parts.model, execution_with(parts, on_device.placements)).stash);
  }
  return limits;
}

// The arena shares memory in ways that the sums of a chain do not see: budgets move until everything fits.
std::optional<Proposal> shortest(const RunParts& parts, const Candidates& candidates, const Constraint& constraint,
                                 const MemoryLimits& limits) {
  const BlockChain chain(parts, candidates, constraint);
  ChainBudget budget{limits.device, std::min(limits.host, limits.together)};
  std::optional<ChainChoice> choice = chain.solve(budget);
  for (int attempt = 0; choice && attempt < kMostTries; ++attempt) {
    Proposal proposal = chain.proposal(*choice);
    const Bytes arena = chain.arena_bytes(proposal), device = choice->device, host = choice->host;
    const Bytes over_device = above(arena, limits.device), over = above(arena + host, limits.together);
    if (over_device == 0 && over == 0) return proposal;
    // The larger side gives, or the other one where it cannot.
    const ChainBudget less_host{budget.device, above(host, over)};
    choice = over_device == 0 && host > device ? chain.solve(less_host) : std::nullopt;
    if (choice) {
      budget = less_host;
      continue;
    }
    const Bytes excess = over_device > 0 ? over_device : over;
    if (device <= excess) return std::nullopt;
    budget.device = device - excess;
    choice = chain.solve(budget);
  }
  return std::nullopt;
}

// None that is predicted to take a quarter longer than the shortest is worth measuring.
std::vector<Proposal> propose(const RunParts& parts, const Candidates& candidates, const MemoryLimits& limits) {
  const std::string& stash = parts.options.transfer.stash;
  std::vector<Proposal> found;
  const auto add = [&](const Constraint& constraint) {
    std::optional<Proposal> proposal = shortest(parts, candidates, constraint, limits);
    const auto same = [&](const Proposal& other) { return other.shares == proposal->shares; };
    if (proposal && std::none_of(found.begin(), found.end(), same)) found.push_back(std::move(*proposal));
  };
  add({});
  for (const StashPlace place : {StashPlace::device, StashPlace::host}) {
    if (stash != "auto" && stash != name_of(place)) continue;
    for (const char* const policy : {"", "full", "min_cut", "selective", "none"}) add({place, policy});
  }
  std::stable_sort(found.begin(), found.end());
  const auto longer = [&](const Proposal& proposal) { return 4 * proposal.time > 5 * found.front().time; };
  found.erase(std::find_if(found.begin(), found.end(), longer), found.end());
  if (found.size() > kMostProposals) found.resize(kMostProposals);
  return found;
}

}  // namespace l2l::runtime

// The blocks of a run as a chain, each with a menu of what it could keep: what device/recompute/chain.h chooses from,
// and what becomes of its answers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/block_options.h"
#include "runtime/run_plan.h"

namespace l2l::runtime {

struct RecomputationChoice {
  Recomputation recomputation;
  StashPlace stash = StashPlace::host;
};

// Thread-bound.
class BlockChain {
 public:
  // Blocks of one type.
  struct Type {
    int type;
    std::vector<int> blocks;           // numbers
    std::vector<BlockOption> options;  // what they could do; measured when it is first asked for
  };
  // A choice that fits, and its time by the chain.
  struct Candidate {
    RecomputationChoice choice;
    std::vector<std::vector<std::size_t>> options;  // [type][option]: how many blocks take it
    device::recompute::Nanoseconds time;
  };
  struct Limits {
    Bytes device, host;  // of an arena; of what one device keeps in host memory
    Bytes together;      // of both
  };

  // Of `plan`, a run whose blocks keep their inputs alone. Both outlive it; `costs` may measure.
  BlockChain(const RunPlan& plan, StepCosts& costs);

  const std::vector<Type>& types() const { return types_; }
  BlockMenu menu_for(const Type& type) { return {costs_, *plan_.device, plan_.model.block(type.blocks.front())}; }
  // Whether the device's programs take the time of this process's threads.
  bool computes_here();

  // The shortest step of all choices that fit; nothing: none does.
  std::optional<Candidate> shortest(StashPlace stash, const Limits& limits);
  // All blocks of a type take the option of that name, or, where it has none, the one that keeps least.
  std::optional<Candidate> uniform(StashPlace stash, const std::string& policy, const Limits& limits);

 private:
  const device::graph::Graph& forward_of(const Type& type) const {
    return plan_.model.types[static_cast<std::size_t>(type.type)].forward;
  }
  void measure();
  std::vector<device::recompute::LayerType> layers(StashPlace stash);
  device::recompute::LayerOption layer_option(const BlockOption& option, StashPlace stash);
  double copy_seconds(Direction direction, Bytes bytes) {
    return costs_.copy(direction, bytes).value_or(Cost{}).seconds;
  }
  RecomputationChoice spread(const device::recompute::ChainChoice& choice, StashPlace stash) const;
  std::string explain(const Type& type, const BlockOption& option, std::size_t layers, StashPlace stash) const;
  Bytes arena_of(const RecomputationChoice& choice) const;
  // Each microbatch visits a block once each way.
  double microbatches() const { return plan_.execution.microbatches; }

  const RunPlan& plan_;
  StepCosts& costs_;
  std::vector<Type> types_;
};

// "1.25 ms"
std::string milliseconds(double seconds);

}  // namespace l2l::runtime

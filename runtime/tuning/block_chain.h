// The blocks of a run as a chain, each with a menu of what it could keep and where: what compiler/remat/chain.h
// chooses from, and what becomes of its answers.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/plan/run_plan.h"
#include "runtime/tuning/block_options.h"

namespace l2l::runtime {

// Thread-bound.
class BlockChain {
 public:
  // One way for a block: what it does, where its stash is, whether its weights stay.
  struct Way {
    std::size_t option;  // of Type::options
    BlockPlace place;
    compiler::remat::LayerOption load;
  };
  // Blocks of one type.
  struct Type {
    int type;
    std::vector<int> blocks;           // numbers
    std::vector<ValueWorth> values;    // what they could keep; measured when it is first asked for, as is what follows
    std::vector<BlockOption> options;  // what they could do
    std::vector<Way> ways;
  };
  // A choice that fits, and its time by the chain.
  struct Candidate {
    Arrangement arrangement;
    std::vector<std::vector<std::size_t>> ways;  // [type][way]: how many blocks take it
    compiler::remat::Nanoseconds time;
    Bytes crossing;  // the link, in both directions, of blocks' weights and stashes

    // Of two that take as long, the one that copies less.
    friend bool operator<(const Candidate& a, const Candidate& b) {
      return std::tie(a.time, a.crossing) < std::tie(b.time, b.crossing);
    }
  };
  struct Limits {
    Bytes device, host;  // of an arena; of what one device keeps in host memory
    Bytes together;      // of both
  };
  // What all blocks do alike, where it says so.
  struct Alike {
    std::optional<StashPlace> stash = {};
    std::string policy = {};  // of a type that has no option of this name: the one that keeps least
  };

  // Of `plan`, a run whose blocks keep their inputs alone, on the host; `wanted`: what is left open. All outlive it;
  // `costs` may measure.
  BlockChain(const RunPlan& plan, const TransferOptions& wanted, StepCosts& costs);

  const std::vector<Type>& types() const { return types_; }
  BlockMenu menu_for(const Type& type) { return {costs_, *plan_.device, plan_.model.block(type.blocks.front())}; }
  // Whether the device's programs take the time of this process's threads.
  bool computes_here();

  // The shortest step of all choices that fit; nothing: none does.
  std::optional<Candidate> shortest(const Alike& alike, const Limits& limits);

 private:
  const compiler::Graph& forward_of(const Type& type) const {
    return plan_.model.types[static_cast<std::size_t>(type.type)].forward;
  }
  bool shares_cores() const { return plan_.device->uses_host_memory() && plan_.options.transfer.link_bandwidth == 0; }
  void measure();
  std::vector<Way> ways_of(const Type& type);
  compiler::remat::LayerOption load_of(const Type& type, const Way& way);
  compiler::remat::LayerType layers_of(const Type& type);
  // What is offered to the chain's solver: some of the ways.
  struct Offer {
    std::vector<compiler::remat::LayerType> chain;
    std::vector<std::vector<std::size_t>> ways;  // [type][option of the chain]: index into Type::ways
  };
  Offer offer(const Alike& alike);
  bool is(const Type& type, const Way& way, const Alike& alike) const;
  // Of a block's wire, each time it crosses; 0 where it is there anyway.
  Bytes wire_bytes(const Type& type) const;
  double wire_seconds(const Type& type) { return copy_seconds(Direction::to_device, wire_bytes(type)); }
  double copy_seconds(Direction direction, Bytes bytes) {
    return costs_.copy(direction, bytes).value_or(Cost{}).seconds;
  }
  Bytes crossing_of(const Type& type, const Way& way) const;
  Candidate candidate_of(const Offer& offer, const compiler::remat::ChainChoice& choice) const;
  Arrangement arrange(const std::vector<std::vector<std::size_t>>& ways) const;
  Bytes arena_of(const Candidate& candidate) const;
  // Each microbatch visits a block once each way.
  double microbatches() const { return plan_.execution.microbatches; }
  // Of one block.
  Bytes kept(const BlockOption& option) const {
    return (plan_.model.activation_bytes() + option.saved) * static_cast<Bytes>(plan_.execution.live_microbatches());
  }

  const RunPlan& plan_;
  const TransferOptions& wanted_;
  StepCosts& costs_;
  std::vector<Type> types_;
};

}  // namespace l2l::runtime

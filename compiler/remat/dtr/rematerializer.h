// Dynamic Tensor Rematerialization (DTR; Kirisame et al., ICLR 2021): runs a program op by op under a budget of bytes,
// evicts storages when there is no room, and recomputes them when they are needed again. It only decides and calls
// back; it touches no memory. The clock is the sum of the ops' times, so decisions are deterministic.
#pragma once

#include <memory>
#include <vector>

#include "compiler/remat/dtr/heuristic.h"
#include "compiler/remat/dtr/search.h"

namespace l2l::compiler::remat::dtr {

enum class Eviction : std::uint8_t {
  budget,   // room was needed
  release,  // the program dropped its last reference; it may be recomputed for a descendant
  banish    // the same, and nothing will need it again
};

// What the rematerializer does: a simulator counts it, stage.h writes it down as a program. Called in execution order.
// Indices are those of Rematerializer::graph(). An op is executed by allocate_buffer() for each output that is not an
// alias, and perform_op(). Spare outputs are dropped then.
class Callbacks {
 public:
  virtual ~Callbacks() = default;

  // There is room for `tensor`. `spare`: the tensor is in memory already, so this copy lives only while its op runs.
  virtual void allocate_buffer(Index /*tensor*/, bool /*spare*/) {}
  // All arguments are in memory. `again`: the op ran before, to recompute its outputs that are not spare.
  virtual void perform_op(Index /*op*/, bool /*again*/) {}
  // The storage, with all its aliases, leaves memory.
  virtual void perform_eviction(Index /*storage*/, Eviction /*reason*/) {}
  // From now on the storage is neither evicted nor recomputed.
  virtual void pin(Index /*storage*/) {}
};

// What happens to a storage without references. It may be pinned.
enum class Unreferenced : std::uint8_t {
  keep,   // it is evicted like any other
  evict,  // it is evicted at once, unless pinned; it can be recomputed
  // It is freed for good once none of its descendants' tensors is evicted. Those are pinned, since they cannot be
  // recomputed any more.
  banish
};

enum class Failure : std::uint8_t { none, out_of_memory, thrashing };

struct Options {
  Bytes budget = 0;  // 0: unlimited
  Score heuristic = Score::dtr_eq;
  Unreferenced unreferenced = Unreferenced::evict;
  Time repeated_limit = std::numeric_limits<Time>::max();  // of the time of repeated ops; above it, thrashing
  Shortcuts shortcuts;
};

// Thread-bound. Sums of bytes and of times must fit in 62 bits.
class Rematerializer {
 public:
  // `callbacks` must outlive it.
  Rematerializer(const Options& options, Callbacks& callbacks);

  // run() and pin() return false when the budget is too small; failure() then says how, and nothing else may be called.

  // Runs `op`. The program then holds one reference to each output. Throws BadInput for an invalid op, and when an
  // argument is banished.
  bool run(const Op& op);
  // Brings `tensor` into memory and pins its storage. Throws BadInput when it is banished.
  bool pin(Index tensor);

  // Adds or drops a reference to the storage of `tensor`. Throws BadInput when it has none.
  void retain(Index tensor);
  void release(Index tensor);

  const Graph& graph() const { return state_.graph; }
  Failure failure() const { return failure_; }
  Time clock() const { return state_.clock; }  // 1 + the time of all executions
  Bytes memory() const { return state_.memory; }
  Bytes peak() const { return peak_; }  // spare copies of outputs included

 private:
  struct Frame {  // of the call stack of materialize()
    Index tensor;
    bool again;
    std::vector<Index> missing;  // arguments that were not in memory
    std::size_t next = 0;        // index in `missing`
  };

  void declare(Index op);
  bool materialize(Index tensor, bool again);
  void begin(Index tensor, bool again);
  bool finish(const Frame& frame);
  bool make_room(Bytes bytes);
  void execute(const Frame& frame);
  bool is_alias(Index tensor) const;
  bool is_spare(Index tensor) const;  // its op would make it for nothing
  void define(Index tensor);
  void lock(Index storage);
  void unlock(Index storage);
  void evict(Index storage, Eviction reason);
  void leave_memory(Index storage, Life life);
  void pin_storage(Index storage);
  void try_banish(Index storage);
  bool can_be_banished(Index storage) const;
  void banish(Index storage);
  StorageState& referenced(Index tensor);
  void refuse_banished(Index tensor) const;
  bool fail(Failure failure);

  const Options options_;
  Callbacks& callbacks_;
  State state_;
  const std::unique_ptr<Heuristic> heuristic_;
  Search search_;  // among the material storages that are not locked
  std::vector<Frame> stack_;
  std::vector<Index> born_;  // storages that the running op makes material
  Time repeated_ = 0;
  Bytes peak_ = 0;
  Failure failure_ = Failure::none;
};

}  // namespace l2l::compiler::remat::dtr

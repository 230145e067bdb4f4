// Dynamic Tensor Rematerialization (Kirisame et al., ICLR 2021): runs a program op by op under a budget of bytes,
// evicts storages where there is no room, and recomputes what is needed again. It decides and calls back; it touches no
// memory. Time is the sum of the ops' times, so the same program under the same options has the same course everywhere.
#pragma once

#include <memory>
#include <vector>

#include "compiler/remat/dtr/callbacks.h"
#include "compiler/remat/dtr/heuristic.h"
#include "compiler/remat/dtr/pool.h"
#include "compiler/remat/dtr/search.h"

namespace l2l::compiler::remat::dtr {

// What becomes of a storage without references. It may have been pinned before.
enum class Unreferenced : std::uint8_t {
  keep,   // nothing: it is evicted when its turn comes
  evict,  // it is evicted at once unless it is pinned, and can be recomputed
  // It is freed for good as soon as none of its descendants' tensors is evicted, and those are pinned, since they
  // cannot be recomputed any more.
  banish
};

enum class Failure : std::uint8_t { none, out_of_memory, thrashing };

struct Options {
  Bytes budget = 0;  // 0: none
  Score heuristic = Score::dtr_eq;
  Unreferenced unreferenced = Unreferenced::evict;
  Nanoseconds repeated_limit = std::numeric_limits<Nanoseconds>::max();  // time of repeated ops; above it: thrashing
  Shortcuts shortcuts;
};

// Sums of bytes and of times must fit in 62 bits. Thread-bound.
class Rematerializer {
 public:
  // `callbacks` must outlive it.
  Rematerializer(const Options& options, Callbacks& callbacks);

  // Each returns false when the budget does not let it be done; what failed is in failure(), and nothing may follow.

  // Runs `op`, for which nothing banished may be an argument. The program holds one reference to each of its outputs.
  // Throws BadInput for an op that cannot be.
  bool run(const Op& op);
  // Makes `tensor` material and pins its storage.
  bool pin(Index tensor);

  // One reference to the storage of `tensor` more, or fewer. Throws BadInput when there is none.
  void retain(Index tensor);
  void release(Index tensor);

  const Graph& graph() const { return state_.graph; }
  Failure failure() const { return failure_; }
  Nanoseconds clock() const { return state_.clock; }  // 1 and the time of all ops that ran
  Nanoseconds repeated() const { return repeated_; }  // of ops that ran again
  Bytes memory() const { return state_.memory; }
  Bytes peak() const { return peak_; }  // spare copies of outputs included

 private:
  struct Frame {  // a tensor on its way
    Index tensor;
    bool again;
    std::vector<Index> missing;  // arguments that were not defined
    std::size_t next = 0;        // of them
  };

  void declare(Index op);
  bool materialize(Index tensor, bool again);
  void begin(Index tensor, bool again);
  bool finish(const Frame& frame);
  bool make_room(Bytes bytes);
  void execute(const Frame& frame);
  bool is_alias(Index tensor) const;
  bool is_spare(Index tensor) const;  // its op would make it to no purpose
  void drop_spare(Index tensor);
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
  Pool pool_;  // material, not locked
  const std::unique_ptr<Heuristic> heuristic_;
  Search search_;
  std::vector<Frame> stack_;
  std::vector<Index> born_;  // by the op that runs: storages that become material
  Nanoseconds repeated_ = 0;
  Bytes peak_ = 0;
  Failure failure_ = Failure::none;
};

}  // namespace l2l::compiler::remat::dtr

#include "compiler/remat/dtr/rematerializer.h"

#include <algorithm>
#include <string>

#include "core/fault_point.h"
#include "l2l/errors.h"

namespace l2l::compiler::remat::dtr {

Rematerializer::Rematerializer(const Options& options, Callbacks& callbacks)
    : options_(options),
      callbacks_(callbacks),
      heuristic_(make_heuristic(options.heuristic, state_)),
      search_(state_, *heuristic_, options.shortcuts) {}

bool Rematerializer::run(const Op& op) {
  for (const Index arg : op.args) {
    if (arg < state_.defined.size()) refuse_banished(arg);
  }
  const Index index = state_.graph.add(op);
  declare(index);
  if (!materialize(state_.graph.ops()[index].first, false)) return false;
  for (const Index storage : state_.graph.ops()[index].writes) state_.storages[storage].last_access = state_.clock;
  return true;
}

void Rematerializer::declare(Index op) {
  state_.storages.resize(state_.graph.storages().size());
  state_.defined.resize(state_.graph.tensors().size(), 0);
  for (const Index storage : state_.graph.ops()[op].writes) ++state_.storages[storage].references;
  heuristic_->on_added(op);
}

void Rematerializer::refuse_banished(Index tensor) const {
  if (state_.storages[state_.graph.tensors()[tensor].storage].life != Life::banished) return;
  throw BadInput("tensor " + std::to_string(tensor) + " is needed after it was banished with its last reference");
}

bool Rematerializer::pin(Index tensor) {
  refuse_banished(tensor);
  if (!state_.defined[tensor] && !materialize(tensor, true)) return false;
  pin_storage(state_.graph.tensors()[tensor].storage);
  return true;
}

// Depth first, with an explicit stack: the chain of recomputations can be as long as the program.
bool Rematerializer::materialize(Index tensor, bool again) {
  begin(tensor, again);
  while (!stack_.empty()) {
    Frame& frame = stack_.back();
    if (frame.next == frame.missing.size()) {
      if (!finish(frame)) return false;
      stack_.pop_back();
    } else if (const Index arg = frame.missing[frame.next]; !state_.defined[arg]) {
      begin(arg, true);
    } else {
      lock(state_.graph.tensors()[arg].storage);
      ++frame.next;
    }
  }
  return true;
}

// All arguments count as accessed now; those in memory are locked.
void Rematerializer::begin(Index tensor, bool again) {
  Frame frame{tensor, again, {}, 0};
  const Graph::Node& op = state_.graph.ops()[state_.graph.tensors()[tensor].op];
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    state_.storages[op.reads[i]].last_access = state_.clock;
    if (state_.defined[op.args[i]]) {
      lock(op.reads[i]);
    } else {
      frame.missing.push_back(op.args[i]);
    }
  }
  stack_.push_back(std::move(frame));
}

bool Rematerializer::finish(const Frame& frame) {
  const Graph::Node& op = state_.graph.ops()[state_.graph.tensors()[frame.tensor].op];
  if (!make_room(op.bytes)) return fail(Failure::out_of_memory);
  execute(frame);
  for (const Index storage : op.reads) unlock(storage);
  if (options_.unreferenced == Unreferenced::banish) {
    for (const Index storage : op.reads) try_banish(storage);
  }
  return repeated_ <= options_.repeated_limit || fail(Failure::thrashing);
}

bool Rematerializer::make_room(Bytes bytes) {
  while (options_.budget != 0 && bytes > options_.budget - state_.memory) {
    if (search_.empty()) return false;
    for (const Index storage : search_.choose(bytes - (options_.budget - state_.memory))) {
      evict(storage, Eviction::budget);
    }
  }
  return true;
}

// Outputs that are in memory already are made once more and dropped. Among the storages that become material, that of
// the requested tensor becomes a candidate last.
void Rematerializer::execute(const Frame& frame) {
  const Index index = state_.graph.tensors()[frame.tensor].op;
  const Graph::Node& op = state_.graph.ops()[index];
  for (Index t = op.first; t < op.end; ++t) {
    if (!is_alias(t)) callbacks_.allocate_buffer(t, is_spare(t));
  }
  state_.clock += op.time;
  state_.memory += op.bytes;
  peak_ = std::max(peak_, state_.memory);
  if (frame.again) repeated_ += op.time;
  callbacks_.perform_op(index, frame.again);
  born_.clear();
  for (Index t = op.first; t < op.end; ++t) {
    if (is_spare(t)) {
      state_.memory -= state_.graph.tensors()[t].bytes;
    } else if (t != frame.tensor) {
      define(t);
    }
  }
  define(frame.tensor);
  for (const Index storage : born_) search_.add(storage);
  if (frame.again && fault_point("dtr.repeated_is_access")) {
    for (const Index storage : op.writes) state_.storages[storage].last_access = state_.clock;
  }
}

bool Rematerializer::is_alias(Index tensor) const {
  return state_.graph.storages()[state_.graph.tensors()[tensor].storage].tensors.front() != tensor;
}

bool Rematerializer::is_spare(Index tensor) const {
  return state_.defined[tensor] || state_.storages[state_.graph.tensors()[tensor].storage].life == Life::banished;
}

void Rematerializer::define(Index tensor) {
  state_.defined[tensor] = 1;
  const Index storage = state_.graph.tensors()[tensor].storage;
  Life& life = state_.storages[storage].life;
  if (life == Life::material) return;
  const bool returned = life == Life::evicted;
  life = Life::material;
  born_.push_back(storage);
  if (returned) heuristic_->on_returned(storage);
}

void Rematerializer::lock(Index storage) {
  if (state_.storages[storage].locks++ == 0) search_.remove(storage);
}

void Rematerializer::unlock(Index storage) {
  if (--state_.storages[storage].locks == 0) search_.add(storage);
}

void Rematerializer::pin_storage(Index storage) {
  if (state_.storages[storage].pinned) return;
  lock(storage);
  state_.storages[storage].pinned = true;
  callbacks_.pin(storage);
}

void Rematerializer::evict(Index storage, Eviction reason) {
  search_.remove(storage);
  leave_memory(storage, Life::evicted);
  callbacks_.perform_eviction(storage, reason);
  heuristic_->on_evicted(storage);
}

void Rematerializer::leave_memory(Index storage, Life life) {
  state_.storages[storage].life = life;
  state_.memory -= state_.graph.storages()[storage].size;
  for (const Index tensor : state_.graph.storages()[storage].tensors) state_.defined[tensor] = 0;
}

StorageState& Rematerializer::referenced(Index tensor) {
  StorageState& storage = state_.storages[state_.graph.tensors()[tensor].storage];
  if (storage.references == 0) throw BadInput("tensor " + std::to_string(tensor) + " has no reference left");
  return storage;
}

void Rematerializer::retain(Index tensor) { ++referenced(tensor).references; }

void Rematerializer::release(Index tensor) {
  StorageState& state = referenced(tensor);
  if (--state.references > 0) return;
  const Index storage = state_.graph.tensors()[tensor].storage;
  if (options_.unreferenced == Unreferenced::banish) return try_banish(storage);
  const bool at_once = options_.unreferenced == Unreferenced::evict;
  if (at_once && state.life == Life::material && !state.pinned) evict(storage, Eviction::release);
}

bool Rematerializer::can_be_banished(Index storage) const {
  const StorageState& state = state_.storages[storage];
  if (state.references > 0 || state.life == Life::unborn || state.life == Life::banished) return false;
  if (state.locks > (state.pinned ? 1 : 0)) return false;
  for (const Index user : state_.graph.storages()[storage].users) {
    const Graph::Node& op = state_.graph.ops()[user];
    for (Index t = op.first; t < op.end; ++t) {
      if (op.writes[t - op.first] != storage && !is_spare(t)) return false;
    }
  }
  return true;
}

// A banished storage no longer keeps those that it was made from.
void Rematerializer::try_banish(Index storage) {
  std::vector<Index> open = {storage};
  while (!open.empty()) {
    const Index next = open.back();
    open.pop_back();
    if (!can_be_banished(next)) continue;
    banish(next);
    for (const Index maker : state_.graph.storages()[next].makers) {
      const std::vector<Index>& reads = state_.graph.ops()[maker].reads;
      open.insert(open.end(), reads.begin(), reads.end());
    }
  }
}

void Rematerializer::banish(Index storage) {
  StorageState& state = state_.storages[storage];
  if (state.life == Life::material) {
    if (state.locks == 0) search_.remove(storage);
    leave_memory(storage, Life::banished);
    callbacks_.perform_eviction(storage, Eviction::banish);
  } else {
    state.life = Life::banished;
    heuristic_->on_returned(storage);
  }
  for (const Index user : state_.graph.storages()[storage].users) {
    for (const Index written : state_.graph.ops()[user].writes) {
      if (state_.material(written)) pin_storage(written);
    }
  }
}

bool Rematerializer::fail(Failure failure) {
  failure_ = failure;
  return false;
}

}  // namespace l2l::compiler::remat::dtr

// What a step consists of, visit by visit, without time: launches, fills, bytes over the link, groups that are updated.
// Counted from the plan alone; the pass itself is runtime/relay.cpp.
#pragma once

#include <vector>

#include "runtime/plan/run_plan.h"

namespace l2l::runtime {

// A layer's visit to the device. Of resident execution: all its visits in one direction.
struct VisitWork {
  struct Launches {
    const device::Executable* program;
    int count;
  };
  // Copies of one size in one direction, or fills.
  struct Copies {
    Bytes bytes = 0;  // of each
    int count = 0;
    Bytes total() const { return bytes * static_cast<Bytes>(count); }
  };

  LayerIndex layer = 0;
  std::vector<Launches> launches;
  const device::Executable* summed = nullptr;  // launched once by the stream of gradients, between exchange and copy
  Copies zeroed;                               // accumulators, filled by the compute stream
  Copies weights, fetched, reloaded;  // h2d: the wire, or the first device's slice of it; layer inputs and saved values
                                      // out of the host stash
  Copies gathered, exchanged;         // of wires, and of gradients, from the other devices
  Copies stashed, saved, gradients;   // d2h
  std::vector<GroupIndex> updated;    // whose last gradients this visit brings
  Bytes h2d() const { return weights.total() + fetched.total() + reloaded.total(); }
  Bytes d2h() const { return stashed.total() + saved.total() + gradients.total(); }
};

// In the order of the relay: forward from the embedding, the head or its last chunk forward and backward at once,
// backward to the embedding. `programs` must outlive it.
std::vector<VisitWork> step_work(const models::Model& model, const Programs& programs, const ExecutionPlan& execution);
inline std::vector<VisitWork> step_work(const RunPlan& plan) {
  return step_work(plan.model, *plan.programs.front(), plan.execution);
}

}  // namespace l2l::runtime

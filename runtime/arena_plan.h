// The shape of an execution, and every byte of device memory and of page-locked staging that it needs. Immutable.
#pragma once

#include <string>
#include <vector>

#include "l2l/trainer.h"
#include "models/model.h"
#include "runtime/programs.h"

namespace l2l::runtime {

enum class Execution : std::uint8_t { relay, resident };
enum class StashPlace : std::uint8_t { device, host };

// The shape of an execution on each device.
struct ExecutionPlan {
  Execution execution = Execution::relay;
  StashPlace stash = StashPlace::host;
  int devices = 1;
  int microbatches = 1;  // of one device: its share of the minibatch
  int prefetch = 1;
  DType gradients = DType::f32;  // on the link

  // Microbatches whose activations are alive at once: all of them in the relay, one in resident execution.
  int live_microbatches() const { return execution == Execution::relay ? microbatches : 1; }
};

// Uses of device memory; each is a list of buffers.
enum class ArenaPart : std::uint8_t {
  weights,          // slots of wires
  accumulators,     // fp32 gradients
  drain,            // gradients on their way out
  activations,      // layer inputs: the stash on the device, or its way out
  fetch,            // the host stash's way back
  input_gradients,  // dL/d layer input
  scratch,          // of the programs
  batch,            // tokens and targets
  losses,
  logits,  // of one token; none for a head in chunks
  carry,   // of a head in chunks
  count
};

// All memory of one device in one allocation: buffers end to end, each aligned to 256 bytes. Everything in it lives as
// long as the run; what dies earlier lies in `scratch`, planned per program (device/planner).
class ArenaPlan {
 public:
  ArenaPlan(const models::Model& model, const Programs& programs, const ExecutionPlan& plan);

  Bytes bytes() const { return bytes_; }
  std::vector<device::BufferView> views(ArenaPart part, device::BufferView arena) const;
  // One line per part, for people; they add up to bytes().
  std::vector<ContractLine> lines() const;

 private:
  struct Part {
    std::string what;
    std::vector<Bytes> offsets, sizes;
    Bytes total = 0;  // padding included
  };
  void add(ArenaPart part, std::string what, Bytes size, std::size_t count);
  void add(ArenaPart part, std::string what, const std::vector<Bytes>& sizes);

  std::vector<Part> parts_;
  Bytes bytes_ = 0;
};

// Host memory beside the parameter store's, page-locked for copies; per device.
struct HostStaging {
  Bytes stash = 0;    // layer inputs
  Bytes batch = 0;    // tokens, targets, losses, logits
  Bytes squares = 0;  // the sum of squares of a layer's gradients
};
HostStaging host_staging(const models::Model& model, const ExecutionPlan& plan);

}  // namespace l2l::runtime

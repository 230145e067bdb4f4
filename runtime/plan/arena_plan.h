// The shape of an execution, and every byte of device memory and of page-locked staging that it needs. Immutable: a
// pure function of model, scratch of its programs, and shape.
#pragma once

#include <bit>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/memory/streams.h"
#include "l2l/trainer.h"
#include "models/model.h"
#include "runtime/plan/block_placement.h"
#include "runtime/plan/buffer_sizes.h"
#include "runtime/plan/programs.h"
#include "transfer/gradient_slices.h"
#include "transfer/wire_slices.h"

namespace l2l::runtime {

enum class Execution : std::uint8_t { relay, resident };

// The shape of an execution on each device.
struct ExecutionPlan {
  Execution execution = Execution::relay;
  std::vector<BlockPlacement> placements = {};  // of blocks 1, 2, ...
  int groups = 1;        // that share the microbatches: each a device, or those over which layers are split
  int tensor = 1;        // devices of a group
  int first_group = 0;   // its number among those of all ranks
  bool gathers = false;  // each copies a slice of a layer's wire, and they gather the rest from each other
  bool sums = false;     // each sums a slice of a layer's gradients over all of them
  int microbatches = 1;  // of one group: its share of the minibatch
  int parts = 1;         // of one group, of so many microbatches each: a power of two
  int prefetch = 1;
  DType gradients = DType::f32;  // as a device rounds them

  int devices() const { return groups * tensor; }  // of this rank
  // Of a group of this rank, the number of its first microbatch among those of all ranks.
  int first_microbatch(int group) const { return (first_group + group) * microbatches; }
  // In the relay: sums of parts' gradients that are alive at once.
  int accumulators() const { return std::bit_width(static_cast<unsigned int>(parts)); }
  // Microbatches whose activations are alive at once: all of them in the relay, one in resident execution.
  int live_microbatches() const { return execution == Execution::relay ? microbatches : 1; }
  transfer::WireSlices slices(Bytes wire) const { return {wire, gathers ? devices() : 1}; }
  int summing() const { return sums ? devices() : 1; }  // devices that a device's sums are over
  transfer::GradientSlices gradient_slices(std::int64_t elements) const { return {elements, gradients, summing()}; }
  const BlockPlacement& placement(int block) const { return placements.at(static_cast<std::size_t>(block - 1)); }
  int stashed(StashPlace place) const { return count_stashes(placements, place); }
  int staying_weights() const { return count_staying(placements); }
};

// Uses of device memory; each is a list of buffers.
enum class ArenaPart : std::uint8_t {
  weights,          // slots of wires
  own_weights,      // of blocks whose weights stay, in their order
  accumulators,     // fp32 gradients
  drain,            // gradients on their way out
  exchanged,        // where devices sum: gradients from all of them
  sums,             // their sums, on their way out
  stash,            // layer inputs that stay on the device: [block 1, ...][microbatch], empty where they leave
  activations,      // those on their way to the host
  rebuilt,          // those that are rebuilt in the backward pass, a layer's at a time
  fetch,            // of layer inputs, back from the stash
  saved,            // what blocks save for their backward visits, where it stays on the device; ordered as the stash
  saved_out,        // where it does not: on its way to the host
  saved_fetch,      // back from the stash
  input_gradients,  // dL/d layer input
  inputs,           // tokens, or what samples of a custom model bring
  targets,
  row_fields,  // Region::rows; none where rows are not told apart
  losses,
  logits,  // of one token, or where it has labels of all rows of each microbatch; none for a head in chunks
  carry,   // of a head in chunks
  count
};

// The phases of a training pass, as ops on the streams that enforce their order. What is used in different phases may
// share memory where no stream can be in both at once.
//
//   compute     forward ---------> head -> backward -> embedding  programs of the forward pass; of blocks, backward
//   d2h stash     `-> store                ^                      layer inputs leave
//   h2d stash           `-> fetch ---------'                      and come back
//
// What blocks save moves likewise, on streams of its own: forward -> store_saved -> fetch_saved -> backward.
enum class Phase : std::uint8_t { forward, store, fetch, store_saved, fetch_saved, head, backward, embedding };

// The phase in which a layer's programs run.
Phase phase_of(const models::Model& model, int layer, bool backward);

// All memory of one device in one allocation. Weights, drain and what else crosses phases live as long as the run;
// scratch, stash and gradients of layer inputs in their phases (compiler/memory finds the offsets).
class ArenaPlan {
 public:
  // `scratch`: of each phase in which programs run.
  using Scratch = std::map<Phase, Bytes>;
  ArenaPlan(const models::Model& model, const Scratch& scratch, const ExecutionPlan& plan);

  Bytes bytes() const { return bytes_; }
  // What it would be if parts shared nothing but the scratch, the largest of which serves all programs.
  Bytes bytes_apart() const;
  std::vector<device::BufferView> views(ArenaPart part, device::BufferView arena) const;
  device::BufferView scratch(Phase phase, device::BufferView arena) const;
  // One line per part, for people; they add up to bytes(): memory that several parts share counts for the first.
  std::vector<ContractLine> lines() const;
  // What was planned: a tensor per part.
  const compiler::memory::StreamProgram& program() const { return program_; }

 private:
  struct Buffers {
    BufferSizes sizes = {};
    Bytes begin = 0, total = 0;  // padding included; begin by place()
    std::string what = {};
  };
  // Alive in `phases`, in their order; none: always. Returns the tensor.
  std::size_t add(std::string what, BufferSizes sizes, const std::vector<Phase>& phases);
  void add(ArenaPart part, std::string what, BufferSizes sizes, const std::vector<Phase>& phases = {});
  void add_weights(const models::Model& model, const ExecutionPlan& plan);
  void add_gradients(const models::Model& model, const ExecutionPlan& plan);
  void add_stash(const models::Model& model, const ExecutionPlan& plan);
  void add_saved(const models::Model& model, const ExecutionPlan& plan);
  void place();

  compiler::memory::StreamProgram program_;
  std::vector<Buffers> buffers_;             // by tensor of program_
  std::vector<std::size_t> of_part_;         // tensor of each ArenaPart
  std::map<Phase, std::size_t> scratch_of_;  // tensor
  Bytes bytes_ = 0;
};

// The first and the last block whose weights the relay fetches twice, last < first where there is none: the last
// block's stay on the device while a head that is one layer runs, and frozen blocks below all that is trained are not
// visited again.
inline std::pair<int, int> blocks_that_come_again(const models::Model& model) {
  return {std::max(1, model.lowest_visited() - model.block(0)), model.blocks() - (model.head_in_chunks() ? 0 : 1)};
}

// The largest scratch of any program in each phase. Without blocks: of their programs only the one that rounds
// gradients counts.
enum class Blocks : bool { without, with };
ArenaPlan::Scratch scratch_of(const models::Model& model, std::span<const std::unique_ptr<Programs>> programs,
                              Blocks blocks = Blocks::with);

// Host memory beside the parameter store's, page-locked for copies; per device.
struct HostStaging {
  Bytes stash = 0;    // layer inputs
  Bytes saved = 0;    // what blocks save for their backward visit
  Bytes batch = 0;    // tokens, targets, losses, logits
  Bytes squares = 0;  // sums of squares of layers' gradients
};
HostStaging host_staging(const models::Model& model, const ExecutionPlan& plan);

// Bytes of each layer's parameters in `dtype`, and of their gradients.
BufferSizes layer_sizes(const models::Model& model, DType dtype);
BufferSizes gradient_sizes(const models::Model& model, DType dtype);
// By layer.
std::vector<transfer::GradientSlices> gradient_slices(const models::Model& model, const ExecutionPlan& plan);
// Bytes of the items of a stash that are kept at `place`, [block 1, ...][live microbatch]; 0 for those kept elsewhere.
BufferSizes input_sizes(const models::Model& model, const ExecutionPlan& plan, StashPlace place);
BufferSizes saved_sizes(const models::Model& model, const ExecutionPlan& plan, StashPlace place);

}  // namespace l2l::runtime

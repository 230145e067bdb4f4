// All that one device has of a run: its arena, its link, its share of the minibatch, the streams between it and the
// parameter server, and the conductor that leads them.
#pragma once

#include <memory>
#include <vector>

#include "core/failure.h"
#include "runtime/conductor.h"
#include "runtime/minibatch.h"
#include "runtime/plan/run_plan.h"

namespace l2l::runtime {

// Page-locked memory of a device, alive as long as the source.
class PinnedMemory final : public eps::MemorySource {
 public:
  explicit PinnedMemory(device::Device& device) : device_(device) {}
  std::byte* allocate(Bytes size, std::string_view purpose) override;
  // The same, cut into pieces of these sizes.
  std::vector<device::BufferView> pieces(const std::vector<Bytes>& sizes, std::string_view purpose);

 private:
  device::Device& device_;
  std::vector<std::unique_ptr<device::Buffer>> buffers_;
};

// What a device waited for, so far.
struct Stalls {
  double weights_ms = 0, stash_ms = 0, update_ms = 0;
};

// Thread-bound: the device's relay thread.
class DeviceSide {
 public:
  // Device `index` of `plan`, which outlives it, as do `store` and `failure`.
  DeviceSide(const RunPlan& plan, int index, eps::ParameterStore& store, Failure& failure);
  // The failure must have been told, so that no thread waits on; then the compute stream runs dry before what it uses
  // goes.
  ~DeviceSide();

  // Forward and backward of this device's microbatches with weights of version pass.step; waits for their losses.
  void train(const Pass& pass);
  // Losses alone.
  void evaluate(const Pass& pass);
  // Logits after token `row` of the first sequence.
  void predict(const Pass& pass, std::int64_t row, std::span<float> logits);

  MinibatchPart& minibatch() { return *minibatch_; }
  const transfer::Link& link() const { return link_; }
  Stalls stalls() const;

 private:
  void begin(const Pass& pass);

  PinnedMemory pinned_;
  std::unique_ptr<device::Buffer> arena_;
  transfer::Link link_;
  std::unique_ptr<LayerRunner> runner_;
  std::unique_ptr<transfer::Stash> stash_, saved_;
  std::unique_ptr<transfer::WeightStream> weights_;
  std::unique_ptr<transfer::GradientDrain> gradients_;
  std::unique_ptr<MinibatchPart> minibatch_;
  std::unique_ptr<Conductor> conductor_;
};

}  // namespace l2l::runtime

// One device's part of a run: its memory arena, its link to host memory, its share of the minibatch, the transfers
// between it and the parameter server, and the executor that uses them.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/failure.h"
#include "runtime/executor.h"
#include "runtime/generation.h"
#include "runtime/minibatch.h"
#include "runtime/plan/run_plan.h"

namespace l2l::runtime {

// Host memory that is page-locked for a device. Freed with this object.
class PinnedMemory final : public eps::MemorySource {
 public:
  explicit PinnedMemory(device::Device& device) : device_(device) {}
  std::byte* allocate(Bytes size, std::string_view purpose) override;
  // One allocation, cut into pieces of these sizes.
  std::vector<device::BufferView> pieces(const std::vector<Bytes>& sizes, std::string_view purpose);

 private:
  device::Device& device_;
  std::vector<std::unique_ptr<device::Buffer>> buffers_;
};

// How long a device has waited so far, by what it waited for.
struct Stalls {
  double weights_ms = 0, stash_ms = 0, update_ms = 0;
};

// Values of a row from `column` on, in fp32: logits, by token, or a hidden state.
using TakeValues = std::function<void(std::int64_t row, std::int64_t column, std::span<const float> values)>;

// Thread-bound: the device's relay thread.
class DeviceSide {
 public:
  // For device `index` of `plan`. `plan`, `store` and `failure` must outlive this object, and so must `group`, to which
  // the device brings its gradients where layers are split.
  DeviceSide(const RunPlan& plan, int index, eps::ParameterStore& store, Failure& failure,
             transfer::GroupGradients* group = nullptr);
  // Waits until the compute stream is done. Call failure.fail() first, so that no other thread waits for ever.
  ~DeviceSide();

  // Ends the transfer of weights and gradients, and waits until the compute stream is done; after a failure, or between
  // passes. Where devices exchange, none may free its memory before all have ended.
  void stop() {
    weights_->stop();
    gradients_->stop();
    link_.quiesce(runner_->compute());
  }

  // Between steps: the plan's model has other blocks.
  void exchange_blocks();

  // Of a device that shares its microbatches with `first`: each pass begins by copying them from that one's staging
  // memory, which nobody changes during a pass.
  void follow(const DeviceSide& first) { first_ = &first; }

  // Forward and backward pass of this device's microbatches with weights of version pass.step. Waits for their losses.
  void train(const Pass& pass);
  // Forward pass alone. Waits for the losses.
  void evaluate(const Pass& pass);
  // Forward pass alone. Waits for the rows and calls `take` for each of them, perhaps in several pieces.
  void predict(const Pass& pass, const Rows& rows, const TakeValues& take);

  // Allocates what continuing texts needs; `plan` must outlive this object.
  void start_generation(const GenerationPlan& plan);
  // After start_generation().
  Generation& generation() { return *generation_; }

  MinibatchPart& minibatch() { return *minibatch_; }
  const transfer::Link& link() const { return link_; }
  Stalls stalls() const;

 private:
  void begin(const Pass& pass);
  std::unique_ptr<Executor> make_executor();
  transfer::DeviceSums device_sums();

  const RunPlan& plan_;
  const models::Model& model_;  // of this device
  const DeviceSide* first_ = nullptr;
  const transfer::LayerShares shares_;  // without blocks where layers are whole
  PinnedMemory pinned_;
  std::unique_ptr<device::Buffer> arena_;
  transfer::Link link_;
  std::unique_ptr<LayerRunner> runner_;
  std::unique_ptr<transfer::Stash> stash_, saved_;
  std::unique_ptr<transfer::WeightStream> weights_;
  std::unique_ptr<transfer::GradientDrain> gradients_;
  std::unique_ptr<MinibatchPart> minibatch_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Generation> generation_;
};

}  // namespace l2l::runtime

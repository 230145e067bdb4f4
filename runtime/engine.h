// A plan, allocated and running: the arena, the parameter server, the streams between them, and the conductor.
#pragma once

#include <memory>
#include <vector>

#include "core/failure.h"
#include "optimizers/loss_scaler.h"
#include "runtime/conductor.h"
#include "runtime/minibatch.h"
#include "runtime/run_plan.h"

namespace l2l::runtime {

// Page-locked memory of a device, alive as long as the source.
class PinnedMemory final : public eps::MemorySource {
 public:
  explicit PinnedMemory(device::Device& device) : device_(device) {}
  std::byte* allocate(Bytes size, std::string_view purpose) override;
  // The same, cut into `count` pieces of `size` bytes.
  std::vector<device::BufferView> pieces(Bytes size, std::size_t count, std::string_view purpose);

 private:
  device::Device& device_;
  std::vector<std::unique_ptr<device::Buffer>> buffers_;
};

// What a pass cost, beside its result; differences of running totals.
struct Stalls {
  double weights_ms = 0, stash_ms = 0, update_ms = 0;
};

// Thread-bound: the relay thread. After a failure only the destructor may be called; it joins all threads.
class Engine {
 public:
  // `plan` and `trace` (may be null) must outlive the engine.
  Engine(const RunPlan& plan, Trace* trace);
  ~Engine();

  eps::ParameterStore& store() { return *store_; }
  Minibatch& minibatch() { return *minibatch_; }
  const transfer::Link& link() const { return link_; }
  // State of the loss scale; restored after loading, before the next step.
  optimizers::LossScaler& loss_scaler() { return scaler_; }

  struct Result {
    double loss_sum = 0;
    double gradient_norm = 0;
    double loss_scale = 1;  // in this step
    bool skipped = false;   // its gradients overflowed: nothing was updated
  };
  // One training step over the minibatch: pass, gradients, verdict. Version `step` in, version step + 1 out.
  Result train(std::uint64_t step, double learning_rate);
  // Sum of the losses of the minibatch, dropout off. Pending updates are completed first.
  double evaluate(std::uint64_t step);
  // Logits after token `row` of the first sequence, dropout off.
  void predict(std::uint64_t step, std::int64_t row, std::span<float> logits);
  // So far.
  Stalls stalls() const;

 private:
  // Runs `body`; what it throws becomes the failure that every thread sees, and the first failure is rethrown.
  template <typename Body>
  auto guarded(Body body);

  const RunPlan& plan_;
  optimizers::LossScaler scaler_;
  Trace* const trace_;
  const int step_track_;
  Failure failure_;
  PinnedMemory pinned_;
  std::unique_ptr<device::Buffer> arena_;
  transfer::Link link_;
  std::unique_ptr<eps::ParameterStore> store_;
  std::unique_ptr<LayerRunner> runner_;
  std::unique_ptr<transfer::Stash> stash_;
  std::unique_ptr<transfer::WeightStream> weights_;
  std::unique_ptr<transfer::GradientDrain> gradients_;
  std::unique_ptr<Minibatch> minibatch_;
  std::unique_ptr<Conductor> conductor_;
};

}  // namespace l2l::runtime

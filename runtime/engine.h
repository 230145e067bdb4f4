// A plan, allocated and running: the parameter server, and beside each device what leads it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/failure.h"
#include "optimizers/loss_scaler.h"
#include "runtime/device_side.h"
#include "runtime/relay_threads.h"

namespace l2l::runtime {

// Thread-bound: the thread that calls it leads device 0, and each other device has a relay thread of its own. After a
// failure only the destructor may be called; it joins all threads.
class Engine {
 public:
  // `plan` and `trace` (may be null) must outlive the engine.
  Engine(const RunPlan& plan, Trace* trace);
  ~Engine();

  eps::ParameterStore& store() { return *store_; }
  Minibatch& minibatch() { return *minibatch_; }
  const transfer::Link& link(int device = 0) const { return sides_[static_cast<std::size_t>(device)]->link(); }
  // Bytes enqueued so far, over the links of all devices.
  Bytes h2d(transfer::Traffic traffic) const;
  Bytes d2h(transfer::Traffic traffic) const;
  // State of the loss scale; restored after loading, before the next step.
  optimizers::LossScaler& loss_scaler() { return scaler_; }

  struct Result {
    double loss_sum = 0;
    double gradient_norm = 0;
    double loss_scale = 1;                       // in this step
    bool skipped = false;                        // its gradients overflowed: nothing was updated
    std::optional<double> drift = std::nullopt;  // Minibatch::drift()
  };
  // One training step over the minibatch: pass, gradients, verdict. Version `step` in, version step + 1 out.
  Result train(std::uint64_t step, double learning_rate);
  // Sum of the losses of the minibatch, dropout off. Pending updates are completed first.
  double evaluate(std::uint64_t step);
  // Logits after token `row` of the first sequence, dropout off; on device 0.
  void predict(std::uint64_t step, std::int64_t row, std::span<float> logits);
  // So far; the mean of the devices.
  Stalls stalls() const;

 private:
  // Runs `body`; what it throws becomes the failure that every thread sees, and the first failure is rethrown.
  template <typename Body>
  auto guarded(Body body);

  optimizers::LossScaler scaler_;
  Trace* const trace_;
  const bool drifts_;
  const int step_track_;
  Failure failure_;
  PinnedMemory pinned_;  // of the parameter server: the first device's
  std::unique_ptr<eps::ParameterStore> store_;
  std::vector<std::unique_ptr<DeviceSide>> sides_;  // by device
  std::unique_ptr<Minibatch> minibatch_;
  RelayThreads relays_;  // last: idle when all else goes
};

}  // namespace l2l::runtime

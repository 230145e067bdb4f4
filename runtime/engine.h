// Allocates what a plan describes and runs steps: the parameter server, the devices, and one thread for each of them.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "core/failure.h"
#include "optimizers/loss_scaler.h"
#include "runtime/device_side.h"
#include "runtime/ranks.h"
#include "runtime/relay_threads.h"
#include "transfer/courier.h"

namespace l2l::runtime {

// Of one rank. Thread-bound. The calling thread runs device 0, and each further device has a relay thread of its own.
// After a call has thrown, only destruction is allowed, which joins all threads; after a NumericError that changed
// nothing the store may still be saved.
class Engine {
 public:
  // `plan`, `trace` (may be null) and `ranks` must outlive the engine. `weights`: initial ones; null: all are random.
  // `ranks`: those that train together, as the plan has them; null: there is one.
  Engine(const RunPlan& plan, Trace* trace, const WeightSource* weights = nullptr, Ranks* ranks = nullptr);
  ~Engine();

  eps::ParameterStore& store() { return *store_; }
  // That of all its threads: to fail it ends the call in progress, and all later ones, with the error.
  Failure& failure() { return failure_; }
  Minibatch& minibatch() { return *minibatch_; }
  const transfer::Link& link(int device = 0) const { return sides_[static_cast<std::size_t>(device)]->link(); }
  // Between steps: the plan's model, which is `model`, has other blocks (models/exchange.h).
  void exchange_blocks(const models::Model& model);
  // Bytes over the links of all devices so far.
  LinkCounters link_counters() const;
  // The state of dynamic loss scaling. Whoever loads a checkpoint restores it before the next step.
  optimizers::LossScaler& loss_scaler() { return scaler_; }
  // Likewise; a new run has the newest.
  DropoutMasks dropout_masks() const { return dropout_masks_; }
  void set_dropout_masks(DropoutMasks masks) { dropout_masks_ = masks; }

  // Of all ranks.
  struct Result {
    double loss_sum = 0;
    std::int64_t predicted = 0, rows = 0;  // Minibatch::predicted(), rows()
    double gradient_norm = 0;
    double loss_scale = 1;                       // in this step
    bool skipped = false;                        // its gradients overflowed: nothing was updated
    std::optional<double> drift = std::nullopt;  // Minibatch::drift()
  };
  // One training step over the minibatch, with weights of version `step`; updates make version step + 1. Returns when
  // the loss and the gradient norm are known; updates may still run.
  Result train(std::uint64_t step, double learning_rate);
  // Sum of the minibatch's losses, dropout off. Waits for pending updates first.
  double evaluate(std::uint64_t step);
  // DeviceSide::predict() on device 0, dropout off.
  void predict(std::uint64_t step, const Rows& rows, const TakeValues& take);
  // Lets texts be continued on device 0 with a cache; `plan` must outlive the engine. Once.
  void start_generation(const GenerationPlan& plan);
  // Null before start_generation().
  const GenerationPlan* generation_plan() const { return generation_plan_; }
  // Generation::run_texts() and run_rows(). Waits for pending updates first.
  void run_texts(std::uint64_t step, std::span<const TextTokens> texts, const TakeTextLogits& take);
  void run_rows(std::uint64_t step, std::span<const NextToken> rows, const TakeTextLogits& take);
  // So far; the mean over the devices.
  Stalls stalls() const;
  // Bytes between this rank and the others so far; null where there is one rank.
  const transfer::Courier* courier() const { return courier_.get(); }
  // Of whoever reads the state of all ranks, one thread at a time; null where there is one rank.
  collectives::Collectives* state_peers() { return state_peers_ ? &*state_peers_ : nullptr; }

 private:
  // Runs `body`. If it throws, every thread's waits throw, too, and the first failure is rethrown.
  template <typename Body>
  auto guarded(Body body);

  optimizers::LossScaler scaler_;
  DropoutMasks dropout_masks_ = kNewestDropoutMasks;
  Trace* const trace_;
  const bool drifts_;
  const int step_track_;
  Failure failure_;
  PinnedMemory pinned_;  // the parameter server's, page-locked for the first device
  Ranks alone_;
  Ranks& ranks_;
  std::unique_ptr<eps::ParameterStore> store_;
  const int exceptions_ = std::uncaught_exceptions();
  std::optional<collectives::Collectives> peers_;  // of the courier
  Failure state_failure_;                          // of these: failure_, but for what leaves the state whole
  Failure::Registration state_ends_;
  std::optional<collectives::Collectives> state_peers_;  // of whoever reads the state of all ranks
  std::unique_ptr<transfer::Courier> courier_;
  std::vector<std::unique_ptr<transfer::GroupGradients>> groups_;  // of devices over which layers are split
  std::vector<std::unique_ptr<DeviceSide>> sides_;                 // by device
  std::unique_ptr<Minibatch> minibatch_;
  Failure::Registration exchange_abort_;  // of devices that exchange
  const GenerationPlan* generation_plan_ = nullptr;
  RelayThreads relays_;  // last: joins before what the threads use is destroyed
};

}  // namespace l2l::runtime

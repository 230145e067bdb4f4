// Runs a minibatch through all layers of a model on one device. There are two executors, which give the same bits
// (law 2): the relay takes all microbatches through one layer before it turns to the next, resident execution takes one
// microbatch through all layers.
#pragma once

#include <memory>
#include <vector>

#include "runtime/layer_runner.h"
#include "transfer/gradient_drain.h"
#include "transfer/stash.h"
#include "transfer/weight_stream.h"

namespace l2l::runtime {

// What an executor works with. The references must outlive it.
struct ExecutorResources {
  LayerRunner& runner;
  transfer::WeightStream& weights;
  transfer::Stash& stash;  // layer inputs
  transfer::Stash& saved;  // what else a block's forward pass saves for its backward pass
  transfer::GradientDrain& gradients;
  // fp32 gradients; relay: sums of parts that are alive at once (ExecutionPlan::accumulators()), resident: one per
  // layer
  std::vector<device::BufferView> accumulators;
  std::vector<device::BufferView> input_gradients;  // live microbatches + 1
  int microbatches = 1;
  int parts = 1;  // of as many microbatches each
};

// Thread-bound: the relay thread. Calls enqueue work on streams and wait only for data; what they have enqueued is done
// when the compute stream is.
class Executor {
 public:
  virtual ~Executor() = default;
  // Forward and backward pass of all microbatches with weights of `version`. Losses go to LayerRunner::losses(),
  // gradients to the parameter server.
  virtual void train(eps::Version version) = 0;
  // Forward pass alone: losses.
  virtual void evaluate(eps::Version version) = 0;
  // `take` is called once for each row and, of logits, piece of the vocabulary, in any order, when these are enqueued;
  // what it enqueues on the compute stream must have read them before the next ones are made.
  virtual void predict(eps::Version version, const Rows& rows, const LayerRunner::TakeRow& take) = 0;
};

std::unique_ptr<Executor> make_relay_executor(const ExecutorResources& resources);
std::unique_ptr<Executor> make_resident_executor(const ExecutorResources& resources);

}  // namespace l2l::runtime

// Resident execution: the conventional baseline with gradient accumulation. The weights and gradients of all layers
// stay on the device, and one microbatch after the other makes its forward and its backward pass. After the last one,
// each layer's gradients leave. Optimizer state and updates are the parameter server's here, too, so each layer's
// weights are sent again once a step.
#include "runtime/executor.h"
#include "runtime/layer_visits.h"

namespace l2l::runtime {
namespace {

using device::BufferView;
using Visit = transfer::WeightStream::Visit;

class Resident final : public Executor {
 public:
  explicit Resident(const ExecutorResources& resources);
  void train(eps::Version version) override;
  void evaluate(eps::Version version) override;
  void predict(eps::Version version, const Rows& rows, const LayerRunner::TakeRow& take) override;

 private:
  void begin_pass(eps::Version version, bool keep, transfer::PassOf devices = transfer::PassOf::all_devices);
  void end_pass();
  void forward_pass(int first, int last, int microbatch);
  void backward_pass(int microbatch);
  BufferView wire(int layer);

  LayerVisits layers_;
  const models::Model& model_;
  transfer::WeightStream& weights_;
  device::Stream& compute_;
  const std::vector<BufferView> accumulators_;  // by layer
  const int microbatches_;
  const int last_block_, head_, last_;  // layers; the head's first and last one
  std::vector<LayerIndex> order_;
  std::vector<Visit> visits_;  // of this pass so far, by layer; room for all is reserved
};

void Resident::train(eps::Version version) {
  begin_pass(version, /*keep=*/true);
  for (int u = 0; u < microbatches_; ++u) {
    forward_pass(0, last_block_, u);
    layers_.begin_backward();
    if (head_ < last_) forward_pass(head_, last_, u);
    backward_pass(u);
  }
  end_pass();
}

void Resident::forward_pass(int first, int last, int microbatch) {
  for (int layer = first; layer <= last; ++layer) layers_.forward(layer, microbatch, wire(layer));
}

void Resident::backward_pass(int microbatch) {
  for (int layer = last_; layer >= 0; --layer) {
    if (!model_.visited_again(layer)) continue;
    const BufferView gradients = accumulators_[static_cast<std::size_t>(layer)];
    if (microbatch == 0) layers_.zero(gradients);
    layers_.backward(layer, microbatch, wire(layer), gradients);
    if (microbatch + 1 == microbatches_) layers_.send_gradients(layer, gradients);
  }
}

void Resident::evaluate(eps::Version version) {
  begin_pass(version, /*keep=*/false);
  for (int u = 0; u < microbatches_; ++u) {
    forward_pass(0, last_, u);
    layers_.end_forward(u);
  }
  end_pass();
}

void Resident::predict(eps::Version version, const Rows& rows, const LayerRunner::TakeRow& take) {
  begin_pass(version, /*keep=*/false, transfer::PassOf::this_device);
  forward_pass(0, last_block_, 0);
  for (int layer = head_; layer <= last_; ++layer) layers_.predict(layer, rows, wire(layer), take);
  layers_.end_forward(0);
  end_pass();
}

void Resident::begin_pass(eps::Version version, bool keep, transfer::PassOf devices) {
  weights_.begin_pass(order_, version, devices);
  layers_.begin_forward(keep);
  visits_.clear();
}

// Takes each layer when it is first needed, so that the first forward pass waits for one layer's update at a time.
BufferView Resident::wire(int layer) {
  while (visits_.size() <= static_cast<std::size_t>(layer)) visits_.push_back(weights_.next(compute_));
  return visits_[static_cast<std::size_t>(layer)].wire;
}

// Releases in the order of layers, so that each keeps its slot.
void Resident::end_pass() {
  for (const Visit& visit : visits_) weights_.release(visit, compute_);
}

Resident::Resident(const ExecutorResources& resources)
    : layers_(resources),
      model_(resources.runner.model()),
      weights_(resources.weights),
      compute_(resources.runner.compute()),
      accumulators_(resources.accumulators),
      microbatches_(resources.microbatches),
      last_block_(model_.head() - 1),
      head_(model_.head()),
      last_(model_.layers() - 1) {
  for (int layer = 0; layer <= last_; ++layer) order_.push_back(layer);
  visits_.reserve(order_.size());
}

}  // namespace

std::unique_ptr<Executor> make_resident_executor(const ExecutorResources& resources) {
  return std::make_unique<Resident>(resources);
}

}  // namespace l2l::runtime

#include "runtime/plan/step_work.h"

namespace l2l::runtime {
namespace {

class Counter {
 public:
  Counter(const models::Model& model, const Programs& programs, const ExecutionPlan& execution)
      : model_(model), programs_(programs), execution_(execution), top_(model.layers() - 1) {}

  std::vector<VisitWork> count() const {
    std::vector<VisitWork> visits;
    for (LayerIndex layer = 0; layer < top_; ++layer) visits.push_back(forward(layer));
    VisitWork turn = backward(top_);
    fetch(turn);
    if (in_chunks()) turn.launches.insert(turn.launches.begin(), forward(top_).launches.front());
    visits.push_back(std::move(turn));
    for (LayerIndex layer = top_ - 1; layer >= 0; --layer) {
      if (model_.visited_again(layer)) visits.push_back(backward(layer));
    }
    book_updates(visits);
    return visits;
  }

 private:
  bool in_chunks() const { return model_.head_in_chunks(); }
  const BlockPlacement& placement(LayerIndex layer) const { return execution_.placement(layer - model_.block(0)); }

  // Of the block that is this layer.
  VisitWork::Copies stash_items(LayerIndex layer, Bytes of_each) const {
    if (placement(layer).stash != StashPlace::host || of_each == 0 || !model_.visited_again(layer)) return {};
    return {of_each, execution_.microbatches};
  }

  void fetch(VisitWork& visit) const {
    const transfer::WireSlices slices = execution_.slices(model_.wire_bytes(visit.layer));
    visit.weights = {slices.bytes(0), 1};
    if (slices.devices > 1) visit.gathered = {slices.received(), 1};
  }

  void drain(VisitWork& visit) const {
    const transfer::GradientSlices slices =
        execution_.gradient_slices(model_.device_layout().gradient_elements(visit.layer));
    visit.gradients = {slices.brought(0), 1};
    if (!execution_.sums) return;
    visit.summed = programs_.of(visit.layer).sum.get();
    visit.exchanged = {slices.received(), 1};
  }

  // The layer below a block leaves that block's input in the stash.
  VisitWork forward(LayerIndex layer) const {
    VisitWork visit;
    visit.layer = layer;
    visit.launches = {{programs_.of(layer).forward.get(), execution_.microbatches}};
    fetch(visit);
    if (in_chunks() && layer == model_.head()) {
      visit.zeroed = {model_.carry_bytes(), execution_.microbatches};
    }
    if (model_.is_block(layer + 1)) visit.stashed = stash_items(layer + 1, model_.activation_bytes());
    if (model_.is_block(layer)) visit.saved = stash_items(layer, model_.saved_bytes(layer));
    return visit;
  }

  // Whether the relay fetches the weights for the backward visit, too.
  bool comes_again(LayerIndex layer) const {
    if (execution_.execution == Execution::resident || layer <= model_.block(0) || layer == top_) return false;
    if (!model_.is_block(layer)) return true;
    return layer <= model_.block(blocks_that_come_again(model_).second) && !placement(layer).weights_stay;
  }

  VisitWork backward(LayerIndex layer) const {
    const LayerPrograms& programs = programs_.of(layer);
    VisitWork visit;
    visit.layer = layer;
    visit.launches = {{programs.backward.get(), execution_.microbatches}};
    if (model_.trained(layer)) visit.launches.push_back({programs.drain.get(), 1});
    if (model_.trained(layer) && execution_.parts > 1)
      visit.launches.push_back({programs.add.get(), execution_.parts - 1});
    visit.zeroed = {model_.gradient_bytes(layer, DType::f32), execution_.parts};
    if (comes_again(layer)) fetch(visit);
    if (model_.is_block(layer)) {
      visit.fetched = stash_items(layer, model_.activation_bytes());
      visit.reloaded = stash_items(layer, model_.saved_bytes(layer));
    }
    if (model_.trained(layer)) drain(visit);
    return visit;
  }

  // A group is complete when the last layer that it is a part of has been left.
  void book_updates(std::vector<VisitWork>& visits) const {
    std::vector<bool> booked(model_.layout.groups.size());
    for (auto visit = visits.rbegin(); visit != visits.rend(); ++visit) {
      if (visit->gradients.count == 0) continue;
      for (const LayerPart& part : model_.layout.layers[static_cast<std::size_t>(visit->layer)].parts) {
        if (booked[static_cast<std::size_t>(part.group)] || model_.layout.gradient_elements_of(part) == 0) continue;
        booked[static_cast<std::size_t>(part.group)] = true;
        visit->updated.push_back(part.group);
      }
    }
  }

  const models::Model& model_;
  const Programs& programs_;
  const ExecutionPlan& execution_;
  const LayerIndex top_;  // the head, or its last chunk: visited once
};

}  // namespace

std::vector<VisitWork> step_work(const models::Model& model, const Programs& programs, const ExecutionPlan& execution) {
  return Counter(model, programs, execution).count();
}

}  // namespace l2l::runtime

// The thread that checks and updates groups, with the worker pool, as the hand-over offers them.
#include <algorithm>
#include <cmath>
#include <exception>

#include "core/fault_point.h"
#include "eps/store_implementation.h"

namespace l2l::eps {

void ParameterStore::Implementation::run_updater() {
  try {
    while (const std::optional<Job> job = wait_for_job()) {
      if (job->kind == JobKind::check) {
        check(job->group);
      } else {
        update(job->group);
      }
    }
  } catch (...) {
    failure.fail(std::current_exception());
  }
}

std::optional<Job> ParameterStore::Implementation::wait_for_job() {
  auto guard = lock();
  while (!stopping) {
    if (const std::optional<Job> job = hand_over.start_job()) return job;
    changed.wait(guard);
  }
  return std::nullopt;
}

void ParameterStore::Implementation::check(GroupIndex index) {
  GroupData& group = groups[static_cast<std::size_t>(index)];
  const Clock::time_point begin = Clock::now();
  if (trace != nullptr) workers.annotate("check", layer_of(index));
  const double sum = sum_of_squares(group.memory, {group.gradients, options.gradients}, workers, block_sums);
  record(track, "check", index, begin);
  {
    const auto guard = lock();
    group.sum_of_squares = sum;
    const bool finite = std::isfinite(sum);
    if (!options.held()) {
      group.learning_rate = learning_rate;
      group.factor = factor_of(group, 0);  // without a hold no clipping needs the norm of all
      if (!finite) release_contributions(index);
    }
    hand_over.finish_check(index, finite);
  }
  notify();
}

void ParameterStore::Implementation::update(GroupIndex index) {
  GroupData& group = groups[static_cast<std::size_t>(index)];
  const Clock::time_point begin = Clock::now();
  const std::uint64_t count = group.updates + (fault_point("eps.skip_correction") ? 2 : 1);
  const optimizers::Optimizer optimizer = optimizers::for_update(options.optimizer, group.learning_rate, count);
  if (trace != nullptr) workers.annotate("update", layer_of(index));
  update_group(group.memory, {group.gradients, options.gradients}, group.factor, optimizer, count, workers, workspace);
  record(track, "update", index, begin);
  {
    const auto guard = lock();
    ++group.updates;
    release_contributions(index);
    hand_over.finish_update(index);
  }
  notify();
}

void ParameterStore::Implementation::record(int on_track, const char* name, GroupIndex group,
                                            Clock::time_point begin) const {
  if (trace == nullptr) return;
  trace->record(on_track, name, begin, Clock::now(), layer_of(group), -1);
}

LayerIndex ParameterStore::Implementation::layer_of(GroupIndex group) const {
  const auto uses = [&](const LayerSpec& layer) {
    return std::any_of(layer.parts.begin(), layer.parts.end(), [&](const LayerPart& p) { return p.group == group; });
  };
  return static_cast<LayerIndex>(std::find_if(layout.layers.begin(), layout.layers.end(), uses) -
                                 layout.layers.begin());
}

}  // namespace l2l::eps

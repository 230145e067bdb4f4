// The updater threads: each takes the jobs of its lane from the hand-over and runs them on the lane's workers.
#include <cmath>
#include <exception>

#include "core/activity.h"
#include "core/fault_point.h"
#include "eps/store_implementation.h"

namespace l2l::eps {

void ParameterStore::Implementation::run_updater(Lane& lane) {
  const ThreadActivity listed("eps updater", lane.index);
  try {
    bind_thread(lane.cpus);
    while (const std::optional<Work> work = wait_for_work(lane)) {
      if (work->job.kind == JobKind::check) {
        check(*work, lane);
      } else {
        update(*work, lane);
      }
    }
  } catch (...) {
    failure.fail(named_exception("eps updater " + std::to_string(lane.index)));
  }
}

std::optional<ParameterStore::Implementation::Work> ParameterStore::Implementation::wait_for_work(const Lane& lane) {
  auto guard = lock();
  while (!stopping) {
    if (const std::optional<Job> job = hand_over.start_job(lane.index)) return Work{*job, first_layer(job->group)};
    const ActivitySpan span(Doing::rests, "the wait for a job");
    changed.wait(guard);
  }
  return std::nullopt;
}

void ParameterStore::Implementation::check(const Work& work, Lane& lane) {
  const GroupIndex index = work.job.group;
  GroupData& group = groups[static_cast<std::size_t>(index)];
  const Clock::time_point begin = Clock::now();
  const ActivitySpan span(Doing::job, "a check", work.layer);
  if (trace != nullptr) lane.workers.annotate("check", work.layer);
  const double sum = sum_of_squares(group.memory, {group.gradients, options.gradients}, lane.workers, lane.block_sums);
  record(lane.track, "check", work.layer, begin);
  add_work(gradient_traffic(group), begin);
  {
    const auto guard = lock();
    take_check(index, sum);
    hand_over.finish_check(index, std::isfinite(sum));
  }
  notify();
}

void ParameterStore::Implementation::update(const Work& work, Lane& lane) {
  const GroupIndex index = work.job.group;
  GroupData& group = groups[static_cast<std::size_t>(index)];
  const Clock::time_point begin = Clock::now();
  const std::uint64_t count = group.updates + (fault_point("eps.skip_correction") ? 2 : 1);
  const optimizers::Optimizer optimizer = optimizers::for_update(options.optimizer, group.learning_rate, count);
  const ActivitySpan span(Doing::job, "an update", work.layer);
  if (trace != nullptr) lane.workers.annotate("update", work.layer);
  // Negative controls: the update of one group is lost, or applied twice.
  const int times = index != 2 ? 1 : fault_point("eps.lost_update") ? 0 : fault_point("eps.double_update") ? 2 : 1;
  try {
    for (int i = 0; i < times; ++i) {
      update_group(group.memory, {group.gradients, options.gradients}, group.factor, optimizer, count,
                   options.microbatches, lane.workers, lane.workspace);
    }
  } catch (const StateMismatch& found) {
    throw_corrupt(index, found);
  }
  record(lane.track, "update", work.layer, begin);
  add_work(gradient_traffic(group) + state_traffic(layout.groups[static_cast<std::size_t>(index)], options), begin);
  {
    const auto guard = lock();
    ++group.updates;
    release_contributions(index);
    hand_over.finish_update(index);
  }
  notify();
}

void ParameterStore::Implementation::record(int on_track, const char* name, LayerIndex layer,
                                            Clock::time_point begin) const {
  if (trace == nullptr) return;
  trace->record(on_track, name, begin, Clock::now(), layer, -1);
}

void ParameterStore::Implementation::add_work(Bytes bytes, Clock::time_point begin) {
  bytes_moved.fetch_add(bytes, std::memory_order_relaxed);
  busy_ns.fetch_add(std::chrono::nanoseconds(Clock::now() - begin).count(), std::memory_order_relaxed);
}

Bytes ParameterStore::Implementation::gradient_traffic(const GroupData& group) const {
  Bytes bytes = 0;
  for (const Contribution& part : group.gradients) {
    bytes += static_cast<Bytes>(part.end - part.begin) * size_of(options.gradients);
  }
  return bytes;
}

// Master and moments are read and written, an f16 wire only written. The second pass of LAMB is not counted.
Bytes ParameterStore::Implementation::state_traffic(const GroupSpec& group, const StoreOptions& options) {
  const optimizers::MomentFormat formats[] = {options.moments.first, options.moments.second};
  Bytes bytes = 0;
  for (const ParameterSpec& parameter : group.parameters) {
    if (!parameter.trained) continue;
    const auto elements = static_cast<Bytes>(parameter.shape.elements());
    bytes += elements * (2 * sizeof(float) + (options.wire == DType::f16 ? size_of(options.wire) : 0));
    for (int i = 0; i < optimizers::moments_of(options.optimizer); ++i) {
      bytes += 2 * (elements * optimizers::code_bytes(formats[i]) + optimizers::scale_bytes(formats[i], elements));
    }
  }
  return bytes;
}

}  // namespace l2l::eps

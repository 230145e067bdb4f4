// The updater threads: each takes the jobs of its lane from the hand-over and runs them on the lane's workers.
#include <algorithm>
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
      switch (work->job.kind) {
        case JobKind::sum:
          sum(*work, lane);
          break;
        case JobKind::check:
          check(*work, lane);
          break;
        case JobKind::update:
          update(*work, lane);
          break;
      }
    }
  } catch (...) {
    failure.fail(named_exception("eps updater " + std::to_string(lane.index)));
  }
}

std::optional<ParameterStore::Implementation::Work> ParameterStore::Implementation::wait_for_work(const Lane& lane) {
  auto guard = lock();
  while (!stopping) {
    if (const std::optional<Job> job = hand_over.start_job(lane.index, has_room_for_sums())) {
      if (job->kind == JobKind::sum) begin_sum(job->group);
      return Work{*job, first_layer(job->group)};
    }
    const ActivitySpan span(Doing::rests, "the wait for a job");
    job_or_stop.wait(guard);
  }
  return std::nullopt;
}

void ParameterStore::Implementation::check(const Work& work, Lane& lane) {
  const GroupIndex index = work.job.group;
  GroupData& group = groups[static_cast<std::size_t>(index)];
  const Clock::time_point begin = Clock::now();
  const ActivitySpan span(Doing::job, "a check", work.layer);
  if (trace != nullptr) lane.workers.annotate("check", work.layer);
  const std::span<double> sums =
      options.rank.count == 1
          ? std::span(lane.block_sums)
          : std::span(group.block_sums).subspan(static_cast<std::size_t>(group.memory.shard_begin().block));
  const double sum = sum_of_squares(group.memory, contributions_of(group), lane.workers, sums);
  record(lane.track, "check", work.layer, begin);
  add_work(gradient_traffic(group), begin);
  auto guard = lock();
  if (options.rank.count == 1) take_check(index, sum);
  hand_over.finish_check(index, std::isfinite(sum));
  unlock_and_notify(std::move(guard));
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
      update_group(group.memory, contributions_of(group), group.factor, optimizer, count, options.microbatches,
                   lane.workers, lane.workspace);
    }
  } catch (const StateMismatch& found) {
    throw_corrupt(index, found);
  }
  record(lane.track, "update", work.layer, begin);
  add_work(gradient_traffic(group) + group.state_traffic, begin);
  auto guard = lock();
  ++group.updates;
  release_contributions(index);
  hand_over.finish_update(index, /*published=*/group.memory.shards_wire());
  unlock_and_notify(std::move(guard));
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
  const ElementRange own = gradients_of_rank(group.memory.cuts(), options.rank.index);
  for (const Contribution& part : group.gradients) {
    bytes += static_cast<Bytes>(own.common({part.begin, part.end}).count()) * size_of(options.sent_type());
  }
  return bytes;
}

ElementRange ParameterStore::Implementation::shard_of(const GroupSpec& group, const StoreOptions& options) {
  if (options.rank.count == 1) return {0, group.gradient_elements()};
  return gradients_of_rank(shard_cuts(group, options.rank.count, options.whole_tensors()), options.rank.index);
}

// Master and moments are read and written, an f16 wire only written. The second pass of LAMB is not counted.
Bytes ParameterStore::Implementation::state_traffic(const GroupSpec& group, const StoreOptions& options) {
  const optimizers::MomentFormat formats[] = {options.moments.first, options.moments.second};
  const std::vector<std::int64_t> gradients = group.gradient_offsets();
  const ElementRange own = shard_of(group, options);
  Bytes bytes = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i] < 0) continue;
    const ElementRange all{gradients[i], gradients[i] + group.parameters[i].shape.elements()};
    const auto elements = static_cast<Bytes>(all.common(own).count());
    bytes += elements * (2 * sizeof(float) + (options.wire == DType::f16 ? size_of(options.wire) : 0));
    for (int i = 0; i < optimizers::moments_of(options.optimizer); ++i) {
      bytes += 2 * (elements * optimizers::code_bytes(formats[i]) + optimizers::scale_bytes(formats[i], elements));
    }
  }
  return bytes;
}

}  // namespace l2l::eps

// The gradients of a rank's devices, summed before they leave for the other ranks.
#include "core/fault_point.h"
#include "eps/store_implementation.h"

namespace l2l::eps {
namespace {

constexpr std::int64_t kPiece = 64 * kRunUnit;  // of a worker, in elements

}  // namespace

// Takes its room, and wakes the lane whose group may be summed after it.
void ParameterStore::Implementation::begin_sum(GroupIndex index) {
  GroupData& group = groups[static_cast<std::size_t>(index)];
  group.received_slot = exchanged.received.take(index).value();
  group.sum_slot = exchanged.sums.take(index).value();
  job_or_stop.notify_all();
}

// Of each use: what lies in this rank's shard for the update here, the rest to be sent.
void ParameterStore::Implementation::sum(const Work& work, Lane& lane) {
  const GroupIndex index = work.job.group;
  const GroupData& group = groups[static_cast<std::size_t>(index)];
  const Clock::time_point begin = Clock::now();
  const ActivitySpan span(Doing::job, "a sum over devices", work.layer);
  if (trace != nullptr) lane.workers.annotate("sum over devices", work.layer);
  const int devices = options.devices - (fault_point("eps.sum_without_a_device") ? 1 : 0);
  auto* own = reinterpret_cast<float*>(exchanged.received.data(group.received_slot));
  auto* sent = reinterpret_cast<float*>(exchanged.sums.data(group.sum_slot));
  Bytes bytes = 0;
  for (const Use& use : uses[static_cast<std::size_t>(index)]) {
    const std::size_t first = use.first + static_cast<std::size_t>(options.rank.index * options.devices);
    const Contributions pushed{std::span(group.gradients).subspan(first, static_cast<std::size_t>(devices)),
                               options.gradients, static_cast<std::size_t>(devices)};
    const auto sum_to = [&](float* sums, ElementRange range) {
      lane.workers.parallel_for((range.count() + kPiece - 1) / kPiece, [&](std::int64_t piece, int) {
        const std::int64_t from = range.begin + piece * kPiece;
        const auto count = static_cast<std::size_t>(std::min(kPiece, range.end - from));
        sum_over_devices(pushed, from, {sums + piece * kPiece, count});
      });
    };
    const ElementRange all = use.elements, mine = all.common(own_shard(index));
    sum_to(sent, {all.begin, mine.begin});
    sum_to(own, mine);
    sum_to(sent + (mine.end - all.begin), {mine.end, all.end});
    own += mine.count();
    sent += all.count();
    bytes += sum_traffic(all.count(), options);
  }
  record(lane.track, "sum over devices", work.layer, begin);
  add_work(bytes, begin);
  auto guard = lock();
  take_sums(index);
  hand_over.finish_sum(index);
  unlock_and_notify(std::move(guard));
}

// The group's gradients are its sums from now on; the devices have their buffers back.
void ParameterStore::Implementation::take_sums(GroupIndex index) {
  GroupData& group = groups[static_cast<std::size_t>(index)];
  for (int& slot : group.slots) {
    if (slot >= 0) slots.release(std::exchange(slot, -1));
  }
  group.gradients.resize(group.gradients.size() / static_cast<std::size_t>(options.devices));
  const std::byte* at = exchanged.received.data(group.received_slot);
  for (const Use& use : uses[static_cast<std::size_t>(index)]) {
    const ElementRange mine = use.elements.common(own_shard(index));
    group.gradients[sent_place(use, 0, options.rank.index)] = {at, mine.begin, mine.end};
    at += static_cast<Bytes>(mine.count()) * size_of(options.sent_type());
  }
}

// Of each device it is read, the sum is written.
Bytes ParameterStore::Implementation::sum_traffic(std::int64_t elements, const StoreOptions& options) {
  if (!options.sums_devices()) return 0;
  const Bytes of_each = static_cast<Bytes>(options.devices) * size_of(options.gradients) + size_of(options.sent_type());
  return static_cast<Bytes>(elements) * of_each;
}

}  // namespace l2l::eps

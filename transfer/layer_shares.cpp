#include "transfer/layer_shares.h"

#include <cstring>

#include "core/activity.h"

namespace l2l::transfer {

GroupGradients::GroupGradients(eps::ParameterStore& store, int contributor, int members, const ModelLayout& layout,
                               Bytes gradient, Failure& failure)
    : store_(store),
      contributor_(contributor),
      members_(members),
      gradient_(gradient),
      failure_(failure),
      registration_(failure.on_failure([this] {
        { const std::lock_guard lock(mutex_); }
        changed_.notify_all();
      })) {
  for (LayerIndex layer = 0; layer < static_cast<LayerIndex>(layout.layers.size()); ++layer) {
    padding_.push_back(padding_of(layout, layer));
  }
}

// Whoever waits for the store does so without the mutex: memory becomes free when others close a layer.
std::byte* GroupGradients::open(LayerIndex layer) {
  std::unique_lock lock(mutex_);
  const auto [place, first] = open_.try_emplace(layer);
  Open& opened = place->second;
  if (!first) {
    const ActivitySpan span(Doing::rests, "the wait for memory of the group's gradients");
    changed_.wait(lock, [&] { return opened.there || failure_.failed(); });
    failure_.rethrow();
    return opened.buffer.data();
  }
  lock.unlock();
  eps::GradientBuffer buffer = store_.gradient_buffer(layer, contributor_);
  for (const auto& [begin, end] : padding_[static_cast<std::size_t>(layer)]) {  // nobody brings it
    std::memset(buffer.data() + static_cast<Bytes>(begin) * gradient_, 0, static_cast<Bytes>(end - begin) * gradient_);
  }
  lock.lock();
  opened.buffer = std::move(buffer);
  opened.there = true;
  changed_.notify_all();
  return opened.buffer.data();
}

void GroupGradients::close(LayerIndex layer) {
  eps::GradientBuffer whole;
  {
    const std::lock_guard lock(mutex_);
    const auto place = open_.find(layer);
    if (++place->second.closed < members_) return;
    whole = std::move(place->second.buffer);
    open_.erase(place);
  }
  store_.push(layer, contributor_, std::move(whole));
}

}  // namespace l2l::transfer

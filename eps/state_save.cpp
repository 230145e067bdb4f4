#include "eps/state_save.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "core/activity.h"
#include "core/log.h"
#include "eps/store_implementation.h"

namespace l2l::eps {

StateSave ParameterStore::begin_save() {
  Implementation& self = *implementation_;
  self.failure.rethrow();
  const auto guard = self.lock();
  self.hand_over.begin_save();
  return StateSave(*this);
}

StateSave::StateSave(StateSave&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)), groups_(std::exchange(other.groups_, {})) {}

StateSave::~StateSave() {
  if (store_ == nullptr) return;
  try {
    ParameterStore::Implementation& self = *store_->implementation_;
    auto guard = self.lock();
    take_back();
    self.hand_over.end_save();
    self.unlock_and_notify(std::move(guard));
  } catch (const std::exception& error) {
    log(LogLevel::error, std::string("while a save was ended: ") + error.what());
  }
}

std::optional<GroupIndex> StateSave::next() {
  ParameterStore::Implementation& self = *store_->implementation_;
  auto guard = self.lock();
  take_back();
  while (!self.hand_over.all_saved()) {
    if (const std::optional<GroupIndex> group = self.hand_over.start_save()) {
      hand_out(*group);
      return group;
    }
    wait(guard);
  }
  return std::nullopt;
}

std::vector<GroupIndex> StateSave::next_of_each_writer() {
  const std::optional<GroupIndex> first = next();
  if (!first) return {};
  ParameterStore::Implementation& self = *store_->implementation_;
  const auto guard = self.lock();
  std::vector<GroupIndex> groups = {*first};
  const auto writer = [&](GroupIndex group) { return self.writers[static_cast<std::size_t>(group)]; };
  const auto is_free = [&](GroupIndex group) {
    return std::ranges::find(groups, writer(group), writer) == groups.end();
  };
  while (const std::optional<GroupIndex> group = self.hand_over.start_save(is_free)) {
    hand_out(*group);
    groups.push_back(*group);
  }
  return groups;
}

void StateSave::take(std::span<const GroupIndex> groups) {
  ParameterStore::Implementation& self = *store_->implementation_;
  auto guard = self.lock();
  take_back();
  for (const GroupIndex group : groups) {
    while (!self.hand_over.start_save(group)) wait(guard);
    hand_out(group);
  }
}

void StateSave::release() {
  const auto guard = store_->implementation_->lock();
  take_back();
}

void StateSave::wait(std::unique_lock<std::mutex>& guard) {
  ParameterStore::Implementation& self = *store_->implementation_;
  if (self.failure.failed()) {
    guard.unlock();
    self.failure.rethrow();
  }
  const ActivitySpan span(Doing::rests, "the wait for a group to save");
  self.changed.wait(guard);
}

void StateSave::take_back() {
  if (groups_.empty()) return;
  ParameterStore::Implementation& self = *store_->implementation_;
  for (const auto& [group, begin] : std::exchange(groups_, {})) {
    self.record(self.save_track, "save", self.first_layer(group), begin);
    self.hand_over.finish_save(group);
  }
  self.notify_locked();
}

}  // namespace l2l::eps

#include "eps/state_save.h"

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
    : store_(std::exchange(other.store_, nullptr)),
      group_(std::exchange(other.group_, std::nullopt)),
      begin_(other.begin_) {}

StateSave::~StateSave() {
  if (store_ == nullptr) return;
  try {
    ParameterStore::Implementation& self = *store_->implementation_;
    const auto guard = self.lock();
    take_back();
    self.hand_over.end_save();
    self.notify();
  } catch (const std::exception& error) {
    log(LogLevel::error, std::string("while a save was ended: ") + error.what());
  }
}

std::optional<GroupIndex> StateSave::next() {
  ParameterStore::Implementation& self = *store_->implementation_;
  auto guard = self.lock();
  take_back();
  while (!self.hand_over.all_saved()) {
    group_ = self.hand_over.start_save();
    if (group_) {
      begin_ = Clock::now();
      return group_;
    }
    wait(guard);
  }
  return std::nullopt;
}

void StateSave::next(GroupIndex group) {
  ParameterStore::Implementation& self = *store_->implementation_;
  auto guard = self.lock();
  take_back();
  while (!self.hand_over.start_save(group)) wait(guard);
  group_ = group;
  begin_ = Clock::now();
}

void StateSave::finish() {
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
  if (!group_) return;
  ParameterStore::Implementation& self = *store_->implementation_;
  self.record(self.save_track, "save", self.first_layer(*group_), begin_);
  self.hand_over.finish_save(*std::exchange(group_, std::nullopt));
  self.notify();
}

}  // namespace l2l::eps

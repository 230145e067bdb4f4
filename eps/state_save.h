// A save during training: hands out the groups of one version, one after the other, for reading.
#pragma once

#include <mutex>
#include <optional>

#include "core/trace.h"
#include "eps/parameter_store.h"

namespace l2l::eps {

// Made by ParameterStore::begin_save(); must not outlive the store. Movable; thread-bound. Training goes on, except
// that the update of a group waits until it is saved. The destructor ends the save, finished or not, and so these
// waits.
class StateSave {
 public:
  StateSave(StateSave&& other) noexcept;
  StateSave& operator=(StateSave&&) = delete;
  ~StateSave();

  // Takes back the group handed out before, so that its update may begin. Then waits until another group has the
  // version and hands it out, to be read through the store; empty when all are saved. Throws a stored failure only
  // instead of waiting, so that the groups that already have the version are still saved.
  std::optional<GroupIndex> next();
  // The same for a group that somebody else has chosen: takes back the one before and waits until this one has the
  // version. Each group once.
  void next(GroupIndex group);
  // Takes back the last group.
  void finish();

 private:
  friend class ParameterStore;
  explicit StateSave(ParameterStore& store) : store_(&store) {}
  void take_back();  // with the store's mutex held
  void wait(std::unique_lock<std::mutex>& guard);

  ParameterStore* store_ = nullptr;
  std::optional<GroupIndex> group_;  // being read
  Clock::time_point begin_;          // of reading it
};

}  // namespace l2l::eps

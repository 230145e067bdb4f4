// A save during training: hands out the groups of one version, one after the other, for reading.
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

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
  // Of several ranks, as many groups at once as they can write: waits like next(), and hands out all groups with the
  // version that go to different writers (ParameterStore::writer()).
  std::vector<GroupIndex> next_of_each_writer();
  // The same for groups that another rank has chosen: waits until all have the version. Each group once.
  void take(std::span<const GroupIndex> groups);
  // Takes back what was handed out last.
  void release();

 private:
  friend class ParameterStore;
  explicit StateSave(ParameterStore& store) : store_(&store) {}
  // With the store's mutex held.
  void hand_out(GroupIndex group) { groups_.emplace_back(group, Clock::now()); }
  void take_back();
  void wait(std::unique_lock<std::mutex>& guard);

  ParameterStore* store_ = nullptr;
  std::vector<std::pair<GroupIndex, Clock::time_point>> groups_;  // being read, and since when
};

}  // namespace l2l::eps

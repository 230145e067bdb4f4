// A save that runs beside training: hands out the groups of one version, one after the other, for reading.
#pragma once

#include <optional>

#include "core/trace.h"
#include "eps/parameter_store.h"

namespace l2l::eps {

// Made by ParameterStore::begin_save(), which it must not outlive. Movable; one thread at a time. Training goes on
// meanwhile; only the update of a group that was not yet saved waits. The destructor ends the save, finished or not,
// and lets every update go.
class StateSave {
 public:
  StateSave(StateSave&& other) noexcept;
  StateSave& operator=(StateSave&&) = delete;
  ~StateSave();

  // Takes back the group handed out before, so that its update may begin. Then waits until another one has the version
  // and hands it out, to be read through the store; nothing once all were. A failure of the run is thrown only where
  // it would have to be waited through: groups that are there can still be saved.
  std::optional<GroupIndex> next();

 private:
  friend class ParameterStore;
  explicit StateSave(ParameterStore& store) : store_(&store) {}
  void take_back();  // with the store's mutex held

  ParameterStore* store_ = nullptr;
  std::optional<GroupIndex> group_;  // being read
  Clock::time_point begin_;          // of reading it
};

}  // namespace l2l::eps

// The hand-over between those who read weights, those who bring gradients and the updater, as a state machine without
// threads, memory or time. The parameter store drives it under one mutex; a test enumerates its schedules.
//
//   resting(t) --push x (devices * uses)--> complete --start_job--> checking --finish_check--> checked --verdict-->
//   approved --no lease lives, start_job--> updating --finish_update--> resting(t + 1)
//
// A group that is rejected (its own check when eager, the step's verdict when held) rests again at version t. When the
// step is skipped, all rest at version t + 1, which is version t under a new name.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/model_layout.h"
#include "eps/parameter_store.h"

namespace l2l::eps {

enum class GroupState : std::uint8_t { resting, complete, checking, checked, approved, updating };

enum class JobKind : std::uint8_t { check, update };

struct Job {
  JobKind kind;
  GroupIndex group;
  bool operator==(const Job&) const = default;
};

// A value; thread-bound. Calls out of order throw Error. Allocates in its constructor alone.
class HandOver {
 public:
  // `layout` is valid and is only read here. `held`: verdict() decides for all groups; otherwise each check decides.
  HandOver(const ModelLayout& layout, int devices, bool held);

  // Opens step `step`: the one after the last that was closed.
  void begin_step(Version step);
  // Closes the step once all_checked(). Held: approves or rejects every group; eager: `approve` has no effect.
  void verdict(bool approve);
  // Closes the step once all_checked(), without updates: what was version t is version t + 1. Held alone.
  void skip();
  // Nothing may be pending: every group rests at version `step`, and step `step` is the next to open.
  void restore(Version step);
  Version step() const { return step_; }  // the open step, or the next one
  bool open() const { return open_; }
  bool all_checked() const { return open_ && unchecked_ == 0; }
  bool all_resting() const { return resting_ == groups_.size(); }

  // later: a group is at an earlier version. gone: at a later one, or about to be.
  enum class Availability : std::uint8_t { ready, later, gone };
  Availability availability(LayerIndex layer, Version version) const;
  // A view of whatever version the layer has now.
  void lease(LayerIndex layer);
  void release(LayerIndex layer);

  // Every group of the layer takes contributions to the open step (or to the next one, between steps).
  bool accepts(LayerIndex layer) const;
  void push(LayerIndex layer, int device);
  // Place of a contribution in its group's sum: uses from the last layer down, within a use by device.
  std::size_t contribution(LayerIndex layer, std::size_t part, int device) const;
  std::size_t contributions(GroupIndex group) const { return group_at(group).received.size(); }

  // The next job, which the caller must finish: updates first, in the order in which the next forward needs them; then
  // checks, in the order in which the backward completes them.
  std::optional<Job> start_job();
  void finish_check(GroupIndex group, bool finite);
  void finish_update(GroupIndex group);

  GroupState state(GroupIndex group) const { return group_at(group).state; }
  Version version(GroupIndex group) const { return group_at(group).version; }
  int leases(GroupIndex group) const { return group_at(group).leases; }
  LayerIndex first_use(GroupIndex group) const { return group_at(group).first_use; }
  LayerIndex last_use(GroupIndex group) const { return group_at(group).last_use; }

  bool operator==(const HandOver&) const = default;

 private:
  struct Group {
    GroupState state = GroupState::resting;
    Version version = 0;
    int leases = 0;
    bool queued = false;  // in updates_
    LayerIndex first_use = 0, last_use = 0;
    std::size_t missing = 0;             // contributions
    std::vector<std::uint8_t> received;  // by contribution
    bool operator==(const Group&) const = default;
  };
  struct Part {
    GroupIndex group = 0;
    std::size_t first_contribution = 0;
    bool operator==(const Part&) const = default;
  };

  Group& group_at(GroupIndex group) { return groups_[static_cast<std::size_t>(group)]; }
  const Group& group_at(GroupIndex group) const { return groups_[static_cast<std::size_t>(group)]; }
  const std::vector<Part>& parts_of(LayerIndex layer) const { return layers_[static_cast<std::size_t>(layer)]; }
  void add_use(GroupIndex group, LayerIndex layer);
  void expect(GroupIndex group, GroupState state) const;
  void leave_rest(Group& group, GroupState state);
  void rest(Group& group);
  void approve(GroupIndex group);
  void queue_update(GroupIndex group);
  void queue_check(GroupIndex group);
  bool updates_later(GroupIndex a, GroupIndex b) const;
  bool checks_later(GroupIndex a, GroupIndex b) const;

  std::size_t devices_;
  bool held_;
  bool open_ = false;
  Version step_ = 0;
  std::vector<Group> groups_;
  std::vector<std::vector<Part>> layers_;
  std::size_t unchecked_ = 0;  // groups of the open step
  std::size_t resting_ = 0;
  std::vector<GroupIndex> checks_;   // heap: complete groups
  std::vector<GroupIndex> updates_;  // heap: approved groups without a lease
};

}  // namespace l2l::eps

// The state machine that orders reading weights, bringing gradients, updating and saving; it has no threads, memory or
// time of its own. The parameter store drives it under one mutex, one transition at a time; the work itself (copies,
// checks, updates, writing) happens between two transitions, outside the mutex.
//
// A group of version v is
//
//   resting    until its last contribution (devices * uses) is pushed            -> complete
//              or at once, where the check is known                              -> checked
//              of several ranks: until the last one of this rank is pushed       -> local
//              where its devices are summed first                                -> pushed
//   complete   until start_job() hands out its check                             -> checking
//   checking   until finish_check(): eager and finite                            -> approved
//              held, or not finite                                               -> checked
//              of several ranks                                                  -> measured
//   checked    until the verdict on the step: held and approved                  -> approved
//              rejected, or not finite                                           -> resting, version v
//              skipped: the same data as version v + 1                           -> resting, version v + 1
//   approved   until no lease lives, no save wants version v, and start_job()
//              hands out its update                                              -> updating
//   updating   until finish_update()                                             -> resting, version v + 1
//              of several ranks                                                  -> updated
//
// Several ranks have a shard of each group (eps/shards.h), and states for what they exchange, each left when
// finish_exchange() says that it is there. What a rank's devices are summed to before it leaves is a job:
//
//   pushed     until start_job() hands out its sum            -> summing    -> local
//   local      until start_exchange() hands out its gradients -> gathering  -> complete
//   measured   until start_exchange() hands out its squares   -> comparing  -> as after a check
//   updated    until start_exchange() hands out its wire      -> publishing -> resting, version v + 1
//              where each rank has its shard of the wire alone              -> resting, version v + 1
//
// While a save of version s runs (begin_save() to end_save()), a group is also
//
//   wanted     until it has version s and start_save() hands it out              -> reading
//   reading    until finish_save()                                               -> unmarked
//   unmarked   until the next save; end_save() unmarks all
//
// A group whose parameters are all frozen always rests, at any version that is asked for. One that no layer of the open
// step uses has the same data as version v + 1 when the step is closed. Where its update is still pending then, it gets
// that version when the update is finished.
//
// Leases and pushes go on while a group is wanted or read; only its update to s + 1 waits. tests/eps/model explores the
// schedules of this machine and seeds bugs into it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "core/model_layout.h"
#include "eps/rank_exchange.h"
#include "eps/shards.h"
#include "eps/version.h"

namespace l2l::eps {

// In the order in which a group goes through them. From `approved` on its version is about to go.
enum class GroupState : std::uint8_t {
  resting,
  pushed,
  summing,
  local,
  gathering,
  complete,
  checking,
  measured,
  comparing,
  checked,
  approved,
  updating,
  updated,
  publishing
};
enum class SaveState : std::uint8_t { unmarked, wanted, reading };

enum class JobKind : std::uint8_t { sum, check, update };

struct Job {
  JobKind kind;
  GroupIndex group;
  bool operator==(const Job&) const = default;
};

// A value; thread-bound. Calls out of order throw Error. Only the constructor and set_layers() allocate.
class HandOver {
 public:
  // `layout` is valid and not kept. `held`: verdict() decides for all groups; otherwise each check decides. `lanes`:
  // the lane of each group, from 0, which gets its jobs; empty: one lane has all. `devices`: of each rank. `sums`: of
  // several ranks, each sums its devices' gradients before they leave.
  HandOver(const ModelLayout& layout, int devices, bool held, const std::vector<int>& lanes = {}, Rank rank = {},
           bool sums = false);

  // Between steps: the layers of the next ones, of which each group may have any number of parts, or none. No lease may
  // live; updates may be pending.
  void set_layers(const std::vector<LayerSpec>& layers);

  // Opens step `step`: the one after the last that was closed.
  void begin_step(Version step);
  // Closes the step; needs all_checked(). Held: approves or rejects every group. Eager: groups that are not finite are
  // rejected, and `approve` has no effect.
  void verdict(bool approve);
  // Closes the step without updates: version t becomes version t + 1. Needs all_checked(); held only.
  void skip();
  // Every group rests at version `step`, and step `step` is the next to open. Nothing may be pending.
  void restore(Version step);
  Version step() const { return step_; }  // the open step, or the next one
  bool open() const { return open_; }
  bool all_checked() const { return open_ && unchecked_ == 0; }
  bool all_resting() const { return resting_ == groups_.size(); }

  // later: a group does not have the version yet. gone: a group has a later one, or is about to.
  enum class Availability : std::uint8_t { ready, later, gone };
  Availability availability(LayerIndex layer, Version version) const;
  // Takes a lease of whatever version the layer has now.
  void lease(LayerIndex layer);
  void release(LayerIndex layer);

  // Whether every group of the layer takes contributions to the open step (between steps: to the next one).
  bool accepts(LayerIndex layer) const;
  // `finite`: the result of the check, if it is known; there is then no check job. Only for groups that get no other
  // contribution. `device`: of this rank.
  void push(LayerIndex layer, int device, std::optional<bool> finite = std::nullopt);
  // Position of a contribution in its group's sum: by use, from the last layer to the first, then by rank, then by
  // device. Without a rank: this one.
  std::size_t contribution(LayerIndex layer, std::size_t part, int device) const;
  std::size_t contribution(LayerIndex layer, std::size_t part, int device, int rank) const;
  std::size_t contributions(GroupIndex group) const { return group_at(group).contributions; }  // of all ranks

  // The next job of a lane, which the caller must finish. Sums first, since other ranks wait for them: only with `room`
  // for them, and in the order in which the backward pass completes them, over all lanes, so that no two ranks take
  // their room for different groups. Then checks, in that order, since the end of the step waits for them and they are
  // short; then updates, in the order in which the next forward pass needs them.
  std::optional<Job> start_job(int lane = 0, bool room = true);
  // Whether some lane has one, of any kind, were there room.
  bool has_job() const;
  void finish_sum(GroupIndex group);
  // `finite`: of several ranks, whatever it says, the exchange of the squares decides.
  void finish_check(GroupIndex group, bool finite);
  // `published`: nobody but this rank has, or needs, its shard of the new weights.
  void finish_update(GroupIndex group, bool published = false);

  // Of several ranks, the next exchange, which the caller must finish; several may be under way. Gradients are handed
  // out in the order in which the backward pass completes them, and only with `room` for them, unless their sums have
  // it.
  std::optional<GroupExchange> start_exchange(bool room = true);
  // `finite`: of squares.
  void finish_exchange(const GroupExchange& exchange, bool finite = true);

  // Begins a save of version step(), between steps and one at a time; not after a rejection. Held updates may be
  // pending.
  void begin_save();
  // The next group to read, which the caller must finish: of the wanted groups that have the version, the one whose
  // next update comes first. Empty when none has it yet, or all are saved. `among`: which come into question; empty:
  // all do.
  std::optional<GroupIndex> start_save(const std::function<bool(GroupIndex)>& among = {});
  // Whether it is this group that is read next, now: it has the version.
  bool start_save(GroupIndex group);
  void finish_save(GroupIndex group);
  // Ends the save, finished or not. No group may be in state reading.
  void end_save();
  bool saving() const { return saving_; }
  bool all_saved() const { return unsaved_ == 0; }

  GroupState state(GroupIndex group) const { return group_at(group).state; }
  SaveState save_state(GroupIndex group) const { return group_at(group).save; }
  Version version(GroupIndex group) const { return group_at(group).version; }
  int leases(GroupIndex group) const { return group_at(group).leases; }
  // Until the next set_layers(). The gradients of the first use complete a group. Without one: kNoUse and -1.
  static constexpr LayerIndex kNoUse = std::numeric_limits<LayerIndex>::max();
  LayerIndex first_use(GroupIndex group) const { return group_at(group).first_use; }
  LayerIndex last_use(GroupIndex group) const { return group_at(group).last_use; }
  int lane(GroupIndex group) const { return group_at(group).lane; }

  bool operator==(const HandOver&) const = default;

 private:
  struct Group {
    GroupState state = GroupState::resting;
    Version version = 0;
    int leases = 0;
    SaveState save = SaveState::unmarked;
    LayerIndex first_use = kNoUse, last_use = -1;
    int lane = 0;
    bool trained = false;                // else frozen
    Version passed = 0;                  // steps that were closed without it while its update was pending
    std::size_t contributions = 0;       // to a step, of all ranks; 0: it has no use, or is frozen
    std::size_t missing = 0;             // of this rank
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
  void pass(Group& group);
  void expect(GroupIndex group, GroupState state) const;
  void rest(Group& group);
  void expect_contributions(Group& group) const;
  void conclude_check(GroupIndex group, bool finite);
  void publish(GroupIndex group);
  std::optional<GroupIndex> next_of(GroupState state) const;
  bool awaits_contributions(const Group& group) const;
  bool may_update(const Group& group) const;
  bool may_save(const Group& group) const;
  bool later(const Job& a, const Job& b) const;
  bool updates_later(GroupIndex a, GroupIndex b) const;
  bool checks_later(GroupIndex a, GroupIndex b) const;
  bool saves_later(GroupIndex a, GroupIndex b) const { return held_ ? updates_later(a, b) : checks_later(a, b); }

  std::size_t devices_;  // of each rank
  Rank rank_;
  bool held_;
  bool sums_;
  bool open_ = false;
  Version step_ = 0;
  std::vector<Group> groups_;
  std::vector<std::vector<Part>> layers_;
  std::size_t used_ = 0;       // groups with contributions
  std::size_t unchecked_ = 0;  // groups of the open step
  std::size_t resting_ = 0;
  bool saving_ = false;
  Version save_version_ = 0;
  std::size_t unsaved_ = 0;  // groups wanted or being read
};

}  // namespace l2l::eps

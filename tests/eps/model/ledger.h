// What must be true of a run, kept apart from the machine under test: the ledger sees the same events, knows nothing of
// the machine's states, and says which law was broken.
#pragma once

#include <cstdint>
#include <string>

#include "eps/hand_over.h"
#include "tests/eps/model/scenario.h"

namespace l2l::eps::model {

// A value. Versions and steps are absolute. Every function that is told of an event checks the laws for it.
class Ledger {
 public:
  explicit Ledger(const Scenario& scenario);

  // Readers.
  void pulled(LayerIndex layer, int version);
  void copied(LayerIndex layer, int version, int half, int device);
  void released(LayerIndex layer);
  int copies(int device, LayerIndex layer) const { return state_.copies[device][layer]; }

  // Gradients and steps. `place`: where the machine puts the contribution to `group`.
  void begun(int step);
  void pushed(LayerIndex layer, GroupIndex group, int device, std::size_t place);
  void closed(bool approved);
  void skipped();
  void completed();  // complete_updates() returned
  bool is_open(int step) const { return state_.begun == step + 1 && state_.closed == step; }
  bool finite(GroupIndex group) const;  // the group's gradient in the open step
  bool step_is_broken() const { return state_.begun - 1 == scenario_->broken_step; }
  bool step_is_skipped() const { return state_.begun - 1 == scenario_->skipped_step; }

  // An updater. `job`: what the machine hands out to its lane, or nothing.
  void started(int lane, const std::optional<Job>& job);
  void updated_half(GroupIndex group, int half);
  void finished(const Job& job);
  bool has_room_for_sums() const;

  // The courier. `exchange`: what the machine hands out, or nothing.
  void exchange_started(const std::optional<GroupExchange>& exchange);
  void exchange_finished(const GroupExchange& exchange);

  // The saver.
  void save_begun();
  void save_started(GroupIndex group);
  void save_waits();  // the machine has no group for the saver now
  void saved_half(GroupIndex group, int half);
  void save_finished(GroupIndex group);
  void save_ended(bool given_up);
  bool saving() const { return state_.saving != 0; }
  int saves() const { return state_.saves; }  // ended

  void restored(int step);
  void exchanged(bool now);
  bool is_exchanged() const { return state_.exchanged != 0; }
  // Whatever happens, what the machine says of itself agrees with what happened.
  void expect_agreement(const HandOver& machine);
  // Nobody can move any more.
  void expect_end(const HandOver& machine);

  void broken(const std::string& law) {
    if (violation_.empty()) violation_ = law;
  }
  const std::string& violation() const { return violation_; }  // the first; empty: none

  // The same for equal histories as far as laws go.
  std::string key() const { return {reinterpret_cast<const char*>(&state_), sizeof state_}; }

 private:
  static constexpr int kMostPlaces = 2 * kMostDevices;

  // Bytes only: no padding, so that the bytes are the key.
  struct Group {
    std::int8_t written[2];  // the content that was last written to each half of the data
    std::int8_t readers;     // leases
    std::int8_t read_by_saver;
    std::int8_t places[kMostPlaces];         // contributions: their layer, device and step; 0: none
    std::int8_t checked, approved, updated;  // number of steps
    std::int8_t being_checked, being_updated;
    std::int8_t measured, renewed;     // its shard, of several ranks, is checked; is updated
    std::int8_t being_summed, summed;  // its devices' gradients, until they have left
    std::int8_t exchanging;            // 1 + ExchangeKind; 0: nothing
    std::int8_t passed;                // steps without it that were closed while its update was pending
    std::int8_t saved;                 // 1 + version of the last save that read it whole
  };
  struct State {
    Group groups[kGroups];
    std::int8_t copies[kMostDevices][kLayers];
    std::int8_t begun, closed, rejected;  // steps
    std::int8_t saving, save_version, saves;
    std::int8_t exchanged;
  };
  static_assert(sizeof(State) == sizeof(Group) * kGroups + kMostDevices * kLayers + 7);

  void require(bool condition, const char* law) {
    if (!condition) broken(law);
  }
  // What version `version` of a group holds: a step that is skipped, or does not use it, gives no new content.
  std::int8_t content(GroupIndex group, int version) const;
  bool uses_now(LayerIndex layer, GroupIndex group) const { return uses(is_exchanged(), layer, group); }
  bool used_in(int step, GroupIndex group) const;
  // Of the layers as they are; a group without a use comes last.
  LayerIndex first_use(GroupIndex group) const;
  LayerIndex last_use(GroupIndex group) const;  // -1 without one
  void pass(GroupIndex group);
  bool wanted_by_save(const Group& group) const;
  int places(GroupIndex group) const;
  int lane_of(GroupIndex group) const {
    return scenario_->lanes.empty() ? 0 : scenario_->lanes[static_cast<std::size_t>(group)];
  }
  std::int8_t label(LayerIndex layer, int device, int step) const;
  // Of devices from `first_device` on.
  bool has_contributions(GroupIndex group, int first_device) const;
  bool has_all_contributions(GroupIndex group) const { return has_contributions(group, 0); }
  bool has_own_contributions(GroupIndex group) const { return has_contributions(group, scenario_->first_device()); }
  bool may_exchange(GroupIndex group, ExchangeKind kind) const;
  void conclude_check(GroupIndex group);
  void publish(GroupIndex group);
  bool may_update(GroupIndex group) const;
  bool may_check(GroupIndex group) const;
  bool may_sum(GroupIndex group) const;
  void expect_first_sum(int lane, const std::optional<Job>& job);
  void clear_places(Group& group);
  void expect_updatable(GroupIndex group);
  void expect_availability(const HandOver& machine, LayerIndex layer, int version);

  const Scenario* scenario_;
  State state_{};
  std::string violation_;
};

}  // namespace l2l::eps::model

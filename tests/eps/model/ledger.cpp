#include "tests/eps/model/ledger.h"

namespace l2l::eps::model {
namespace {

constexpr LayerIndex kNoUse = kLayers;

}  // namespace

Ledger::Ledger(const Scenario& scenario) : scenario_(&scenario) {}

// The layer whose forward needs the group first; also the one whose backward completes its gradient.
LayerIndex Ledger::first_use(GroupIndex group) const {
  for (LayerIndex layer = 0; layer < kLayers; ++layer) {
    if (uses_now(layer, group)) return layer;
  }
  return kNoUse;
}

LayerIndex Ledger::last_use(GroupIndex group) const {
  LayerIndex last = kLayers - 1;
  while (last >= 0 && !uses_now(last, group)) --last;
  return last;
}

bool Ledger::used_in(int step, GroupIndex group) const {
  const bool exchanged = scenario_->exchanged(step);
  return uses(exchanged, 0, group) || uses(exchanged, 1, group) || uses(exchanged, 2, group);
}

std::int8_t Ledger::content(GroupIndex group, int version) const {
  std::int8_t updates = 0;
  for (int step = 0; step < version; ++step) {
    if (step != scenario_->skipped_step && used_in(step, group)) ++updates;
  }
  return updates;
}

void Ledger::pulled(LayerIndex layer, int version) {
  for (GroupIndex i = 0; i < kGroups; ++i) {
    if (!uses_now(layer, i)) continue;
    Group& group = state_.groups[i];
    require(group.updated == version, "a reader gets another version than it asked for");
    require(group.being_updated == 0 && group.renewed == 0, "a reader gets a group that is being updated");
    ++group.readers;
  }
}

void Ledger::copied(LayerIndex layer, int version, int half, int device) {
  for (GroupIndex i = 0; i < kGroups; ++i) {
    if (uses_now(layer, i))
      require(state_.groups[i].written[half] == content(i, version), "the data under a lease change");
  }
  if (half == 1) ++state_.copies[device][layer];
}

void Ledger::released(LayerIndex layer) {
  for (GroupIndex i = 0; i < kGroups; ++i) {
    if (uses_now(layer, i)) --state_.groups[i].readers;
  }
}

void Ledger::begun(int step) {
  require(state_.begun == step && state_.closed == step, "a step begins out of order");
  state_.begun = static_cast<std::int8_t>(step + 1);
}

int Ledger::places(GroupIndex group) const {
  return scenario_->all_devices() * (group == 0 && !is_exchanged() ? 2 : 1);
}

std::int8_t Ledger::label(LayerIndex layer, int device, int step) const {
  return static_cast<std::int8_t>(1 + layer * kMostDevices + device + 16 * (step - scenario_->first_step));
}

void Ledger::pushed(LayerIndex layer, GroupIndex index, int device, std::size_t place) {
  Group& group = state_.groups[index];
  if (place >= static_cast<std::size_t>(places(index))) return broken("a contribution has no place in its group");
  require(group.places[place] == 0, "a contribution overwrites another one");
  group.places[place] = label(layer, device, state_.begun - 1);
}

// In the order of the sum: the last use first, within a use by device.
bool Ledger::has_contributions(GroupIndex index, int first_device) const {
  const int step = state_.groups[index].updated;
  int place = 0;
  for (LayerIndex layer = kLayers - 1; layer >= 0; --layer) {
    if (!uses(scenario_->exchanged(step), layer, index)) continue;
    for (int device = 0; device < scenario_->all_devices(); ++device, ++place) {
      if (device < first_device) continue;
      if (state_.groups[index].places[place] != label(layer, device, step)) return false;
    }
  }
  return place > 0;
}

void Ledger::clear_places(Group& group) {
  for (std::int8_t& place : group.places) place = 0;
}

bool Ledger::finite(GroupIndex group) const { return !step_is_broken() || group != scenario_->broken_group; }

void Ledger::closed(bool approved) {
  require(state_.begun == state_.closed + 1, "a verdict without a step");
  ++state_.closed;
  for (GroupIndex i = 0; i < kGroups; ++i) {
    Group& group = state_.groups[i];
    if (!used_in(state_.closed - 1, i)) {
      pass(i);
      continue;
    }
    require(group.checked == state_.closed, "a verdict before every check");
    if (scenario_->held && approved) group.approved = state_.closed;
    if (group.approved != state_.closed) clear_places(group);
  }
  if (!approved) ++state_.rejected;
}

void Ledger::skipped() {
  require(state_.begun == state_.closed + 1, "a step is skipped that is not open");
  ++state_.closed;
  for (GroupIndex i = 0; i < kGroups; ++i) {
    Group& group = state_.groups[i];
    if (!used_in(state_.closed - 1, i)) {
      pass(i);
      continue;
    }
    require(group.checked == state_.closed, "a step is skipped before every check");
    group.approved = group.updated = state_.closed;
    clear_places(group);
  }
}

// The step that was just closed did not use the group.
void Ledger::pass(GroupIndex index) {
  Group& group = state_.groups[index];
  if (group.updated < group.approved) {
    ++group.passed;
  } else {
    group.checked = group.approved = group.updated = state_.closed;
  }
}

void Ledger::exchanged(bool now) {
  require(state_.begun == state_.closed, "layers are exchanged in the middle of a step");
  state_.exchanged = now ? 1 : 0;
}

void Ledger::completed() {
  for (const Group& group : state_.groups) {
    require(group.updated == group.approved, "an update is pending although all are said to be complete");
  }
}

// It is at the version of the save, or at a later name of it, and not yet read.
bool Ledger::wanted_by_save(const Group& group) const {
  return state_.saving != 0 && group.updated >= state_.save_version && group.saved != state_.save_version + 1;
}

// Approved, and nobody who reads it is in the way.
bool Ledger::may_update(GroupIndex index) const {
  const Group& group = state_.groups[index];
  return group.approved == group.updated + 1 && group.being_updated == 0 && group.renewed == 0 && group.readers == 0 &&
         !wanted_by_save(group);
}

bool Ledger::may_check(GroupIndex index) const {
  const Group& group = state_.groups[index];
  return group.being_checked == 0 && group.measured == 0 && group.checked == group.updated &&
         has_all_contributions(index);
}

bool Ledger::may_sum(GroupIndex index) const {
  const Group& group = state_.groups[index];
  return scenario_->sums > 0 && group.being_summed == 0 && group.summed == 0 && group.checked == group.updated &&
         has_own_contributions(index) && !has_all_contributions(index);
}

bool Ledger::has_room_for_sums() const {
  int under_way = 0;
  for (const Group& group : state_.groups) under_way += group.being_summed + group.summed;
  return under_way < scenario_->sums;
}

// Of all lanes in the order in which the backward pass completes the groups; before all else.
void Ledger::expect_first_sum(int lane, const std::optional<Job>& job) {
  std::optional<GroupIndex> first;
  for (GroupIndex i = 0; i < kGroups; ++i) {
    if (may_sum(i) && (!first || first_use(i) > first_use(*first))) first = i;
  }
  if (!job || job->kind != JobKind::sum) {
    require(!first || lane_of(*first) != lane || !has_room_for_sums(), "a sum waits for nobody");
    return;
  }
  require(has_room_for_sums(), "a sum without room for it");
  require(may_sum(job->group), "a sum before the last device, or twice");
  require(!first || first_use(*first) == first_use(job->group), "a sum comes before that of gradients that came first");
}

void Ledger::expect_updatable(GroupIndex index) {
  const Group& group = state_.groups[index];
  require(group.approved == group.updated + 1, scenario_->held
                                                   ? "an update before the verdict, after a rejection, or twice"
                                                   : "an update before its check, after a rejection, or twice");
  require(group.readers == 0, "an update under a lease");
  require(group.read_by_saver == 0, "an update while a save reads");
  require(!wanted_by_save(group), "an update overtakes the save");
  require(has_all_contributions(index), "an update without each contribution once, in its place");
}

// Within a lane checks come before updates; each as urgent as there is one.
void Ledger::started(int lane, const std::optional<Job>& job) {
  require(!job || lane_of(job->group) == lane, "a lane works on a group of another");
  expect_first_sum(lane, job);
  if (job && job->kind == JobKind::sum) return void(state_.groups[job->group].being_summed = 1);
  for (GroupIndex i = 0; i < kGroups; ++i) {
    if (lane_of(i) != lane) continue;
    const bool update = may_update(i), check = may_check(i);
    if (!job) {
      require(!update, "an update waits for nobody");
      require(!check, "a check waits for nobody");
    } else if (job->kind == JobKind::check) {
      require(!check || first_use(i) <= first_use(job->group), "a check comes before a more urgent one");
    } else {
      require(!check, "an update comes before a check");
      require(!update || first_use(i) >= first_use(job->group), "an update comes before a more urgent one");
    }
  }
  if (!job) return;
  Group& group = state_.groups[job->group];
  if (job->kind == JobKind::check) {
    require(may_check(job->group), "a check before the last contribution, or twice");
    group.being_checked = 1;
  } else {
    expect_updatable(job->group);
    require(group.being_updated == 0 && group.renewed == 0, "a group is updated by two");
    group.being_updated = 1;
  }
}

void Ledger::updated_half(GroupIndex index, int half) {
  expect_updatable(index);
  state_.groups[index].written[half] = content(index, state_.groups[index].updated + 1);
}

void Ledger::finished(const Job& job) {
  Group& group = state_.groups[job.group];
  if (job.kind == JobKind::sum) {
    group.being_summed = 0;
    group.summed = 1;
    return;
  }
  if (job.kind == JobKind::check) {
    group.being_checked = 0;
    scenario_->ranks > 1 ? void(group.measured = 1) : conclude_check(job.group);
    return;
  }
  group.being_updated = 0;
  scenario_->ranks > 1 && !scenario_->sharded_wire ? void(group.renewed = 1) : publish(job.group);
}

void Ledger::conclude_check(GroupIndex index) {
  Group& group = state_.groups[index];
  ++group.checked;
  if (!scenario_->held && finite(index)) group.approved = group.checked;
}

void Ledger::publish(GroupIndex index) {
  Group& group = state_.groups[index];
  ++group.updated;
  if (group.passed > 0) {
    group.updated = static_cast<std::int8_t>(group.updated + group.passed);
    group.checked = group.approved = group.updated;
    group.passed = 0;
  }
  clear_places(group);
}

// As far as the group alone goes.
bool Ledger::may_exchange(GroupIndex index, ExchangeKind kind) const {
  const Group& group = state_.groups[index];
  if (group.exchanging != 0) return false;
  if (kind == ExchangeKind::squares) return group.measured != 0;
  if (kind == ExchangeKind::wire) return group.renewed != 0;
  if (scenario_->sums > 0 && group.summed == 0) return false;
  return group.checked == group.updated && has_own_contributions(index) && !has_all_contributions(index);
}

void Ledger::exchange_started(const std::optional<GroupExchange>& exchange) {
  for (GroupIndex i = 0; i < kGroups && !exchange; ++i) {
    for (const ExchangeKind kind : {ExchangeKind::gradients, ExchangeKind::squares, ExchangeKind::wire}) {
      require(!may_exchange(i, kind), "an exchange waits for nobody");
    }
  }
  if (!exchange) return;
  require(may_exchange(exchange->group, exchange->kind), "an exchange of what is not there, or twice");
  for (GroupIndex i = 0; i < kGroups && exchange->kind == ExchangeKind::gradients; ++i) {
    require(!may_exchange(i, exchange->kind) || first_use(i) <= first_use(exchange->group),
            "gradients leave in another order than they come");
  }
  state_.groups[exchange->group].exchanging = static_cast<std::int8_t>(1 + static_cast<int>(exchange->kind));
}

// Of gradients: after their places were filled.
void Ledger::exchange_finished(const GroupExchange& exchange) {
  Group& group = state_.groups[exchange.group];
  group.exchanging = 0;
  if (exchange.kind == ExchangeKind::gradients) group.summed = 0;
  if (exchange.kind == ExchangeKind::squares) {
    group.measured = 0;
    conclude_check(exchange.group);
  } else if (exchange.kind == ExchangeKind::wire) {
    group.renewed = 0;
    publish(exchange.group);
  }
}

void Ledger::save_begun() {
  require(state_.begun == state_.closed, "a save begins in the middle of a step");
  require(state_.saving == 0, "two saves at a time");
  state_.saving = 1;
  state_.save_version = state_.closed;
  for (Group& group : state_.groups) group.saved = 0;
}

void Ledger::save_started(GroupIndex index) {
  Group& group = state_.groups[index];
  require(content(index, group.updated) == content(index, state_.save_version) && group.being_updated == 0 &&
              group.renewed == 0,
          "a save reads another version than its own");
  require(group.saved == 0, "a group is saved twice");
  group.read_by_saver = 1;
  for (GroupIndex i = 0; i < kGroups; ++i) {
    const Group& other = state_.groups[i];
    if (other.updated < state_.save_version || other.saved != 0 || i == index) continue;
    const LayerIndex own = first_use(index), its = first_use(i);
    const bool unused = own == kNoUse || its == kNoUse;  // comes last
    const bool later = own == its ? i > index : scenario_->held || unused ? its > own : its < own;
    require(later, "a save takes a group before a more urgent one");
  }
}

void Ledger::save_waits() {
  for (const Group& group : state_.groups) {
    require(group.updated < state_.save_version || group.saved != 0, "a save waits for nobody");
  }
}

void Ledger::saved_half(GroupIndex index, int half) {
  require(state_.groups[index].written[half] == content(index, state_.save_version),
          "the data change while a save reads them");
}

void Ledger::save_finished(GroupIndex index) {
  state_.groups[index].read_by_saver = 0;
  state_.groups[index].saved = static_cast<std::int8_t>(state_.save_version + 1);
}

void Ledger::save_ended(bool given_up) {
  for (const Group& group : state_.groups) {
    require(given_up || group.saved == state_.save_version + 1, "a save ends without every group");
  }
  state_.saving = 0;
  ++state_.saves;
}

void Ledger::restored(int step) {
  state_.begun = state_.closed = static_cast<std::int8_t>(step);
  for (GroupIndex i = 0; i < kGroups; ++i) {
    Group& group = state_.groups[i];
    group.written[0] = group.written[1] = content(i, step);
    group.checked = group.approved = group.updated = static_cast<std::int8_t>(step);
  }
}

void Ledger::expect_agreement(const HandOver& machine) {
  bool resting = true;
  for (GroupIndex i = 0; i < kGroups; ++i) {
    const Group& group = state_.groups[i];
    require(machine.version(i) == static_cast<Version>(group.updated), "a version is not the number of updates");
    require(machine.leases(i) == group.readers, "leases are miscounted");
    require(machine.first_use(i) == (first_use(i) == kNoUse ? HandOver::kNoUse : first_use(i)),
            "a use comes first that does not");
    require(machine.last_use(i) == last_use(i), "a use comes last that does not");
    const bool to_check = group.checked == group.updated && has_own_contributions(i);
    resting = resting && group.approved == group.updated && group.being_checked == 0 && !to_check &&
              (group.checked == group.updated || state_.rejected != 0);
  }
  require(machine.all_resting() == resting, "a group is said to rest that does not, or the other way round");
  require(machine.step() == static_cast<Version>(state_.closed), "the step is miscounted");
  for (LayerIndex layer = 0; layer < kLayers; ++layer) {
    expect_availability(machine, layer, state_.closed);
    if (state_.closed > 0) expect_availability(machine, layer, state_.closed - 1);
  }
}

// A version can be read from its last update to the approval of the next one.
void Ledger::expect_availability(const HandOver& machine, LayerIndex layer, int version) {
  bool later = false, gone = false;
  for (GroupIndex i = 0; i < kGroups; ++i) {
    if (!uses_now(layer, i)) continue;
    later = later || state_.groups[i].updated < version;
    gone = gone || state_.groups[i].approved > version;
  }
  const HandOver::Availability availability = machine.availability(layer, static_cast<Version>(version));
  require((availability == HandOver::Availability::gone) == gone, "a version can be read that is leaving");
  require(gone || (availability == HandOver::Availability::later) == later, "a version can be read that is not there");
}

void Ledger::expect_end(const HandOver& machine) {
  const int last = scenario_->first_step + scenario_->steps;
  require(state_.closed == last, "a step never ends");
  require(state_.saving == 0 && !machine.saving(), "a save never ends");
  require(machine.all_resting(), "a group never rests");
  for (GroupIndex i = 0; i < kGroups; ++i) {
    const Group& group = state_.groups[i];
    const bool rejected = scenario_->broken_step >= 0 && used_in(scenario_->broken_step, i) &&
                          (scenario_->held || i == scenario_->broken_group);
    require(group.updated == last - (rejected ? 1 : 0), "an update never comes, or comes twice");
    require(group.written[0] == content(i, group.updated) && group.written[1] == content(i, group.updated),
            "half an update is missing");
    require(group.exchanging == 0, "an exchange never ends");
    require(machine.state(i) == GroupState::resting && machine.leases(i) == 0 &&
                machine.save_state(i) == SaveState::unmarked,
            "a group does not come to rest");
  }
}

}  // namespace l2l::eps::model

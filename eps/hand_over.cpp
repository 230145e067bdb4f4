#include "eps/hand_over.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/fault_point.h"
#include "l2l/errors.h"

namespace l2l::eps {
namespace {

// By GroupState.
constexpr const char* kStateNames[] = {"resting",
                                       "complete on this rank's devices",
                                       "being summed on this rank",
                                       "complete on this rank",
                                       "being gathered",
                                       "complete",
                                       "being checked",
                                       "measured",
                                       "being compared",
                                       "checked",
                                       "about to be updated",
                                       "being updated",
                                       "updated on this rank",
                                       "being published"};

}  // namespace

HandOver::HandOver(const ModelLayout& layout, int devices, bool held, const std::vector<int>& lanes, Rank rank,
                   bool sums)
    : devices_(static_cast<std::size_t>(devices)),
      rank_(rank),
      held_(held),
      sums_(sums),
      groups_(layout.groups.size()),
      resting_(layout.groups.size()) {
  for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i].trained = layout.groups[i].gradient_elements() > 0;
  for (std::size_t i = 0; i < lanes.size(); ++i) groups_[i].lane = lanes[i];
  set_layers(layout.layers);
}

void HandOver::set_layers(const std::vector<LayerSpec>& layers) {
  if (open_) throw Error("layers are changed in the middle of step " + std::to_string(step_));
  for (Group& group : groups_) {
    if (group.leases > 0) throw Error("layers are changed while a lease lives");
    group.first_use = kNoUse;
    group.last_use = -1;
    group.contributions = 0;
  }
  layers_.assign(layers.size(), {});
  for (std::size_t layer = layers_.size(); layer-- > 0;) {
    for (const LayerPart& part : layers[layer].parts) add_use(part.group, static_cast<LayerIndex>(layer));
  }
  used_ = 0;
  for (Group& group : groups_) {
    used_ += group.contributions > 0 ? 1 : 0;
    group.received.reserve(group.contributions);
    if (group.state == GroupState::resting) expect_contributions(group);
  }
}

// Called for the layers from the last to the first.
void HandOver::add_use(GroupIndex index, LayerIndex layer) {
  Group& group = group_at(index);
  layers_[static_cast<std::size_t>(layer)].push_back({index, group.contributions});
  if (group.last_use < 0) group.last_use = layer;
  group.first_use = layer;
  if (group.trained) group.contributions += devices_ * static_cast<std::size_t>(rank_.count);
}

void HandOver::begin_step(Version step) {
  if (open_)
    throw Error("step " + std::to_string(step) + " begins before step " + std::to_string(step_) + " is finished");
  if (step != step_)
    throw Error("step " + std::to_string(step) + " begins, but the next one is " + std::to_string(step_));
  open_ = true;
  unchecked_ = used_;
}

void HandOver::verdict(bool approved) {
  if (!all_checked()) throw Error("verdict on step " + std::to_string(step_) + " before its gradients are checked");
  open_ = false;
  ++step_;
  for (Group& group : groups_) {
    if (group.contributions == 0) pass(group);
    if (group.state != GroupState::checked) continue;
    if (held_ && approved) {
      group.state = GroupState::approved;
    } else {
      rest(group);
    }
  }
}

void HandOver::skip() {
  if (!held_ || !all_checked()) throw Error("step " + std::to_string(step_) + " is skipped before it can be judged");
  open_ = false;
  ++step_;
  for (Group& group : groups_) {
    if (group.contributions == 0) {
      pass(group);
      continue;
    }
    ++group.version;
    rest(group);
  }
}

// The closed step did not use the group.
void HandOver::pass(Group& group) {
  if (!group.trained) return;
  ++(group.state == GroupState::resting ? group.version : group.passed);
}

void HandOver::restore(Version step) {
  if (open_ || !all_resting()) throw Error("state restored in the middle of a step");
  if (saving_) throw Error("state restored in the middle of a save");
  step_ = step;
  for (Group& group : groups_) group.version = step;
}

HandOver::Availability HandOver::availability(LayerIndex layer, Version version) const {
  bool later = false;
  for (const Part& part : parts_of(layer)) {
    const Group& group = group_at(part.group);
    if (!group.trained) continue;
    const bool leaving = group.state >= GroupState::approved;
    if (group.version > version || (group.version == version && leaving)) return Availability::gone;
    later = later || group.version < version;
  }
  return later ? Availability::later : Availability::ready;
}

void HandOver::lease(LayerIndex layer) {
  for (const Part& part : parts_of(layer)) ++group_at(part.group).leases;
}

void HandOver::release(LayerIndex layer) {
  for (const Part& part : parts_of(layer)) {
    Group& group = group_at(part.group);
    if (group.leases == 0) throw Error("a lease is released twice");
    --group.leases;
  }
}

bool HandOver::accepts(LayerIndex layer) const {
  for (const Part& part : parts_of(layer)) {
    const Group& group = group_at(part.group);
    if (!group.trained) continue;
    if (group.state != GroupState::resting || group.version != step_) return false;
  }
  return true;
}

void HandOver::push(LayerIndex layer, int device, std::optional<bool> finite) {
  if (!open_) throw Error("gradients of layer " + std::to_string(layer) + " come outside of a step");
  if (device < 0 || static_cast<std::size_t>(device) >= devices_) {
    throw Error("gradients of device " + std::to_string(device) + " of " + std::to_string(devices_));
  }
  const std::vector<Part>& parts = parts_of(layer);
  bool expected = accepts(layer);
  for (std::size_t i = 0; expected && i < parts.size(); ++i) {
    if (!group_at(parts[i].group).trained) continue;
    expected = group_at(parts[i].group).received[contribution(layer, i, device)] == 0;
  }
  if (!expected) {
    throw Error("gradients of layer " + std::to_string(layer) + " from device " + std::to_string(device) +
                " come twice in step " + std::to_string(step_) + ", or before the update of the step before");
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Group& group = group_at(parts[i].group);
    if (!group.trained) continue;
    group.received[contribution(layer, i, device)] = 1;
    if (--group.missing > 0) continue;
    group.state = rank_.count == 1 ? GroupState::complete : sums_ ? GroupState::pushed : GroupState::local;
    --resting_;
    if (finite) conclude_check(parts[i].group, *finite);
  }
}

std::size_t HandOver::contribution(LayerIndex layer, std::size_t part, int device) const {
  return contribution(layer, part, device, rank_.index);
}

std::size_t HandOver::contribution(LayerIndex layer, std::size_t part, int device, int rank) const {
  const std::size_t devices_before = static_cast<std::size_t>(rank) * devices_;
  return parts_of(layer)[part].first_contribution + devices_before + static_cast<std::size_t>(device);
}

// The group in this state that the backward pass completes first.
std::optional<GroupIndex> HandOver::next_of(GroupState state) const {
  std::optional<GroupIndex> next;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const auto group = static_cast<GroupIndex>(i);
    if (groups_[i].state == state && (!next || checks_later(*next, group))) next = group;
  }
  return next;
}

std::optional<Job> HandOver::start_job(int lane, bool room) {
  if (const std::optional<GroupIndex> sum = next_of(GroupState::pushed); sum && room && group_at(*sum).lane == lane) {
    group_at(*sum).state = GroupState::summing;
    return Job{JobKind::sum, *sum};
  }
  std::optional<Job> next;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const bool update = may_update(groups_[i]);
    if (groups_[i].lane != lane || (!update && groups_[i].state != GroupState::complete)) continue;
    const Job job{update ? JobKind::update : JobKind::check, static_cast<GroupIndex>(i)};
    if (!next || later(*next, job)) next = job;
  }
  if (next) group_at(next->group).state = next->kind == JobKind::update ? GroupState::updating : GroupState::checking;
  return next;
}

bool HandOver::has_job() const {
  return std::ranges::any_of(groups_, [&](const Group& group) {
    return group.state == GroupState::pushed || group.state == GroupState::complete || may_update(group);
  });
}

void HandOver::finish_sum(GroupIndex group) {
  expect(group, GroupState::summing);
  group_at(group).state = GroupState::local;
}

void HandOver::finish_check(GroupIndex group, bool finite) {
  expect(group, GroupState::checking);
  if (rank_.count > 1) {
    group_at(group).state = GroupState::measured;
  } else {
    conclude_check(group, finite);
  }
}

void HandOver::conclude_check(GroupIndex group, bool finite) {
  group_at(group).state = GroupState::checked;
  --unchecked_;
  if (!held_ && finite) group_at(group).state = GroupState::approved;
}

void HandOver::finish_update(GroupIndex group, bool published) {
  expect(group, GroupState::updating);
  if (rank_.count > 1 && !published) {
    group_at(group).state = GroupState::updated;
  } else {
    publish(group);
  }
}

void HandOver::publish(GroupIndex group) {
  group_at(group).version += 1 + std::exchange(group_at(group).passed, 0);
  rest(group_at(group));
}

std::optional<GroupExchange> HandOver::start_exchange(bool room) {
  bool awaits_backward = false;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const auto group = static_cast<GroupIndex>(i);
    if (groups_[i].state == GroupState::measured) {
      groups_[i].state = GroupState::comparing;
      return GroupExchange{ExchangeKind::squares, group};
    }
    if (groups_[i].state == GroupState::updated) {
      groups_[i].state = GroupState::publishing;
      return GroupExchange{ExchangeKind::wire, group};
    }
    awaits_backward = awaits_backward || awaits_contributions(groups_[i]);
  }
  // Negative control of overlap: nothing leaves before the backward pass is done.
  if (awaits_backward && fault_point("eps.gradients_leave_late")) return std::nullopt;
  const std::optional<GroupIndex> gradients = next_of(GroupState::local);
  if (!gradients || !(room || sums_)) return std::nullopt;
  group_at(*gradients).state = GroupState::gathering;
  return GroupExchange{ExchangeKind::gradients, *gradients};
}

void HandOver::finish_exchange(const GroupExchange& exchange, bool finite) {
  switch (exchange.kind) {
    case ExchangeKind::gradients:
      expect(exchange.group, GroupState::gathering);
      group_at(exchange.group).state = GroupState::complete;
      return;
    case ExchangeKind::squares:
      expect(exchange.group, GroupState::comparing);
      return conclude_check(exchange.group, finite);
    case ExchangeKind::wire:
      expect(exchange.group, GroupState::publishing);
      return publish(exchange.group);
    case ExchangeKind::visit:
      throw Error("a visit is not an exchange of a group");
  }
}

void HandOver::begin_save() {
  if (open_) throw Error("a save begins in the middle of step " + std::to_string(step_));
  if (saving_) throw Error("a save begins before the one before it has ended");
  for (const Group& group : groups_) {
    if (group.trained && group.state == GroupState::resting && group.version != step_)
      throw Error("a save begins after a rejected step");
  }
  saving_ = true;
  save_version_ = step_ + (fault_point("eps.update_overtakes_save") ? 1 : 0);
  unsaved_ = groups_.size();
  for (Group& group : groups_) group.save = SaveState::wanted;
}

std::optional<GroupIndex> HandOver::start_save(const std::function<bool(GroupIndex)>& among) {
  std::optional<GroupIndex> first;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (!may_save(groups_[i])) continue;
    const GroupIndex group = static_cast<GroupIndex>(i);
    if (among && !among(group)) continue;
    if (!first || saves_later(*first, group)) first = group;
  }
  if (first) group_at(*first).save = SaveState::reading;
  return first;
}

bool HandOver::start_save(GroupIndex group) {
  if (!may_save(group_at(group))) return false;
  group_at(group).save = SaveState::reading;
  return true;
}

bool HandOver::may_save(const Group& group) const {
  return group.save == SaveState::wanted && (!group.trained || group.version >= save_version_);
}

void HandOver::finish_save(GroupIndex index) {
  Group& group = group_at(index);
  if (group.save != SaveState::reading) throw Error("parameter group " + std::to_string(index) + " is not being saved");
  group.save = SaveState::unmarked;
  --unsaved_;
}

void HandOver::end_save() {
  for (const Group& group : groups_) {
    if (group.save == SaveState::reading) throw Error("a save ends while it reads a parameter group");
  }
  saving_ = false;
  unsaved_ = 0;
  for (Group& group : groups_) group.save = SaveState::unmarked;
}

void HandOver::expect(GroupIndex group, GroupState state) const {
  if (group_at(group).state == state) return;
  throw Error("parameter group " + std::to_string(group) + " is " +
              kStateNames[static_cast<std::size_t>(group_at(group).state)] + ", not " +
              kStateNames[static_cast<std::size_t>(state)]);
}

void HandOver::rest(Group& group) {
  group.state = GroupState::resting;
  expect_contributions(group);
  ++resting_;
}

void HandOver::expect_contributions(Group& group) const {
  group.missing = group.contributions / static_cast<std::size_t>(rank_.count);
  group.received.assign(group.contributions, 0);
}

// To the open step.
bool HandOver::awaits_contributions(const Group& group) const {
  return group.state == GroupState::resting && group.contributions > 0 && group.version == step_;
}

bool HandOver::may_update(const Group& group) const {
  if (group.state != GroupState::approved) return false;
  if (group.save != SaveState::unmarked && group.version >= save_version_) return false;
  return group.leases == 0 || fault_point("eps.update_under_lease");
}

bool HandOver::later(const Job& a, const Job& b) const {
  if (a.kind != b.kind) return a.kind == JobKind::update;
  return a.kind == JobKind::update ? updates_later(a.group, b.group) : checks_later(a.group, b.group);
}

bool HandOver::updates_later(GroupIndex a, GroupIndex b) const {
  if (first_use(a) != first_use(b)) return first_use(a) > first_use(b);
  return a > b;
}

// A group is complete when its first layer has been through the backward pass. One without a layer comes last.
bool HandOver::checks_later(GroupIndex a, GroupIndex b) const {
  if (first_use(a) == first_use(b)) return a > b;
  if (first_use(a) == kNoUse || first_use(b) == kNoUse) return first_use(a) == kNoUse;
  return first_use(a) < first_use(b);
}

}  // namespace l2l::eps

#include "tests/eps/model/world.h"

#include "l2l/errors.h"

namespace l2l::eps::model {
namespace {

constexpr const char* kActionNames[] = {"restore",
                                        "begin step",
                                        "finish step",
                                        "complete updates",
                                        "pull",
                                        "copy first half",
                                        "copy second half",
                                        "release",
                                        "await copies of",
                                        "await step",
                                        "take a buffer for",
                                        "push",
                                        "expect full",
                                        "begin a save",
                                        "await the save",
                                        "exchange layers"};

Version version_of(int step) { return static_cast<Version>(step); }

}  // namespace

World::World(const Scenario& scenario)
    : scenario_(&scenario),
      machine_(tied_layout(/*exchanged=*/false), scenario.devices, scenario.held, scenario.lanes,
               {scenario.ranks - 1, scenario.ranks}, scenario.sums > 0),
      ledger_(scenario) {}

bool World::step(int thread) {
  const ThreadSpec& spec = scenario_->threads[static_cast<std::size_t>(thread)];
  Local& local = locals_[static_cast<std::size_t>(thread)];
  try {
    const bool moved = spec.role == Role::script    ? run_script(local, spec)
                       : spec.role == Role::updater ? run_updater(local, spec.lane)
                       : spec.role == Role::courier ? run_courier(local)
                                                    : run_saver(local);
    if (moved) ledger_.expect_agreement(machine_);
    return moved;
  } catch (const Error& error) {
    ledger_.broken(std::string("the machine throws: ") + error.what());
    return true;
  }
}

bool World::run_script(Local& local, const ThreadSpec& thread) {
  if (local.next == thread.script.size() || !run(thread.script[local.next])) return false;
  ++local.next;
  return true;
}

bool World::run(const Operation& operation) {
  const LayerIndex layer = operation.layer;
  switch (operation.action) {
    case Action::restore:
      machine_.restore(version_of(operation.step));
      ledger_.restored(operation.step);
      return true;
    case Action::begin_step:
      machine_.begin_step(version_of(operation.step));
      ledger_.begun(operation.step);
      return true;
    case Action::finish_step:
      return finish_step();
    case Action::complete_updates:
      if (!machine_.all_resting()) return false;
      ledger_.completed();
      return true;
    case Action::pull:
      return pull(operation);
    case Action::copy_first_half:
      ledger_.copied(layer, operation.step, 0, operation.device);
      return true;
    case Action::copy_second_half:
      ledger_.copied(layer, operation.step, 1, operation.device);
      return true;
    case Action::release:
      machine_.release(layer);
      ledger_.released(layer);
      return true;
    case Action::await_copies:
      return ledger_.copies(operation.device, layer) >= operation.count;
    case Action::await_step:
      return ledger_.is_open(operation.step);
    case Action::take_buffer:
      return machine_.accepts(layer);
    case Action::push:
      push(operation);
      return true;
    case Action::expect_full:
      if (machine_.accepts(layer)) ledger_.broken("a layer takes gradients twice in a step");
      return true;
    case Action::begin_save:
      machine_.begin_save();
      ledger_.save_begun();
      return true;
    case Action::await_save:
      return !ledger_.saving();
    case Action::exchange:
      machine_.set_layers(tied_layout(scenario_->exchanged(operation.step)).layers);
      ledger_.exchanged(scenario_->exchanged(operation.step));
      return true;
  }
  return false;
}

bool World::pull(const Operation& operation) {
  const HandOver::Availability availability = machine_.availability(operation.layer, version_of(operation.step));
  if (availability == HandOver::Availability::gone) ledger_.broken("a version is gone before its last reader");
  if (availability != HandOver::Availability::ready) return !violation().empty();
  machine_.lease(operation.layer);
  ledger_.pulled(operation.layer, operation.step);
  return true;
}

void World::push(const Operation& operation) {
  machine_.push(operation.layer, operation.device);
  const std::vector<LayerPart> parts =
      tied_layout(ledger_.is_exchanged()).layers[static_cast<std::size_t>(operation.layer)].parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t place = machine_.contribution(operation.layer, i, operation.device);
    ledger_.pushed(operation.layer, parts[i].group, scenario_->first_device() + operation.device, place);
  }
}

bool World::finish_step() {
  if (!machine_.all_checked()) return false;
  if (ledger_.step_is_skipped()) {
    machine_.skip();
    ledger_.skipped();
    return true;
  }
  const bool approve = !ledger_.step_is_broken();
  machine_.verdict(approve);
  ledger_.closed(approve);
  return true;
}

// wait_for_job(); then check() or update(), whose work lies outside of the mutex.
bool World::run_updater(Local& local, int lane) {
  if (local.phase == 0) {
    const bool is_woken = machine_.has_job();
    const std::optional<Job> job = machine_.start_job(lane, ledger_.has_room_for_sums());
    if (job && !is_woken) ledger_.broken("an updater is woken for every job");
    ledger_.started(lane, job);
    if (!job) return !violation().empty();
    local.kind = static_cast<std::int8_t>(job->kind);
    local.group = static_cast<std::int8_t>(job->group);
    local.phase = job->kind == JobKind::update ? 1 : 3;
  } else if (local.phase < 3) {
    ledger_.updated_half(local.group, local.phase - 1);
    const bool half = scenario_->ranks > 1 && !scenario_->sharded_wire;  // the other one is a peer's
    local.phase = half ? 3 : static_cast<std::int8_t>(local.phase + 1);
  } else {
    const Job job{static_cast<JobKind>(local.kind), local.group};
    switch (job.kind) {
      case JobKind::sum:
        machine_.finish_sum(local.group);
        break;
      case JobKind::check:
        machine_.finish_check(local.group, ledger_.finite(local.group));
        break;
      case JobKind::update:
        machine_.finish_update(local.group, scenario_->sharded_wire);
        break;
    }
    ledger_.finished(job);
    local = {};
  }
  return true;
}

// An exchange at a time, and so as many as there are such threads; the peers may take any time.
bool World::run_courier(Local& local) {
  if (local.phase == 0) {
    const std::optional<GroupExchange> exchange = machine_.start_exchange(/*room=*/scenario_->sums == 0);
    ledger_.exchange_started(exchange);
    if (!exchange) return !violation().empty();
    local.kind = static_cast<std::int8_t>(exchange->kind);
    local.group = static_cast<std::int8_t>(exchange->group);
    local.phase = exchange->kind == ExchangeKind::wire ? 2 : 3;
  } else if (local.phase == 2) {
    ledger_.updated_half(local.group, 1);
    local.phase = 3;
  } else {
    const GroupExchange exchange{static_cast<ExchangeKind>(local.kind), local.group};
    if (exchange.kind == ExchangeKind::gradients) gather(exchange.group);
    machine_.finish_exchange(exchange, ledger_.finite(exchange.group));
    ledger_.exchange_finished(exchange);
    local = {};
  }
  return true;
}

// The contributions of the peers.
void World::gather(GroupIndex group) {
  const std::vector<LayerSpec> layers = tied_layout(ledger_.is_exchanged()).layers;
  for (LayerIndex layer = 0; layer < kLayers; ++layer) {
    const std::vector<LayerPart>& parts = layers[static_cast<std::size_t>(layer)].parts;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].group != group) continue;
      for (int device = 0; device < scenario_->first_device(); ++device) {
        const int rank = device / scenario_->devices;
        const std::size_t place = machine_.contribution(layer, i, device % scenario_->devices, rank);
        ledger_.pushed(layer, group, device, place);
      }
    }
  }
}

// StateSave::next() until there is nothing left, or until the saver gives up; then its destructor.
bool World::run_saver(Local& local) {
  if (!ledger_.saving()) return false;
  if (local.phase == 1 || local.phase == 2) {
    ledger_.saved_half(local.group, local.phase - 1);
    ++local.phase;
    return true;
  }
  if (local.phase == 3 && local.groups == scenario_->give_up_after) return end_save(local, /*given_up=*/true);
  return next_group(local);
}

bool World::next_group(Local& local) {
  const bool takes_back = local.phase == 3;
  if (takes_back) {
    machine_.finish_save(local.group);
    ledger_.save_finished(local.group);
    local.phase = 0;
    local.group = -1;
  }
  if (machine_.all_saved()) return takes_back || end_save(local, /*given_up=*/false);
  const std::optional<GroupIndex> group = machine_.start_save();
  if (!group) {
    ledger_.save_waits();
    return takes_back || !violation().empty();
  }
  ledger_.save_started(*group);
  local.group = static_cast<std::int8_t>(*group);
  local.phase = 1;
  ++local.groups;
  return true;
}

bool World::end_save(Local& local, bool given_up) {
  if (given_up) {
    machine_.finish_save(local.group);
    ledger_.save_finished(local.group);
  }
  machine_.end_save();
  ledger_.save_ended(given_up);
  local = {};
  return true;
}

void World::expect_end() {
  for (std::size_t i = 0; i < scenario_->threads.size(); ++i) {
    const ThreadSpec& thread = scenario_->threads[i];
    const bool ended = thread.role == Role::script ? locals_[i].next == thread.script.size() : locals_[i].phase == 0;
    if (!ended) ledger_.broken("nobody can go on: " + thread.name + " waits to " + next_of(static_cast<int>(i)));
  }
  ledger_.expect_end(machine_);
}

std::string World::next_of(int index) const {
  const ThreadSpec& thread = scenario_->threads[static_cast<std::size_t>(index)];
  const Local& local = locals_[static_cast<std::size_t>(index)];
  if (thread.role == Role::script) {
    if (local.next == thread.script.size()) return "end";
    const Operation& operation = thread.script[local.next];
    return std::string(kActionNames[static_cast<int>(operation.action)]) + " (layer " +
           std::to_string(operation.layer) + ", step " + std::to_string(operation.step) + ")";
  }
  constexpr const char* kJobs[] = {"sum", "check", "update"};
  constexpr const char* kExchanges[] = {"exchange of gradients", "exchange of squares", "exchange of the wire"};
  const auto kind = static_cast<std::size_t>(local.kind);
  const std::string work = thread.role == Role::saver     ? "save"
                           : thread.role == Role::courier ? kExchanges[kind]
                                                          : kJobs[kind];
  if (local.phase == 0) return "take the next group";
  if (local.phase == 3) return "finish the " + work + " of group " + std::to_string(local.group);
  return work + " half " + std::to_string(local.phase) + " of group " + std::to_string(local.group);
}

}  // namespace l2l::eps::model

#include "tests/eps/model/scenario.h"

namespace l2l::eps::model {
namespace {

GroupSpec group(const std::string& name, std::uint32_t id) {
  return {name, id, {{.name = name + ".weight", .shape = {4}}}, 4};
}

using Script = std::vector<Operation>;

void append(Script& script, const Script& more) { script.insert(script.end(), more.begin(), more.end()); }

Script read(LayerIndex layer, int step, int device) {
  return {{Action::pull, layer, step, device},
          {Action::copy_first_half, layer, step, device},
          {Action::copy_second_half, layer, step, device},
          {Action::release, layer, step, device}};
}

Script push(LayerIndex layer, int step, int device) {
  return {{Action::take_buffer, layer, step, device}, {Action::push, layer, step, device}};
}

Operation begin(int step) { return {Action::begin_step, 0, step}; }
Operation finish(int step) { return {Action::finish_step, 0, step}; }
constexpr Operation kComplete = {Action::complete_updates};
constexpr Operation kSave = {Action::begin_save};
constexpr Operation kSaved = {Action::await_save};

// Visits of one step, as the relay makes them: up, and down again but for the embedding.
constexpr LayerIndex kVisits[] = {0, 1, 2, 1};

// The weight stream: one lease at a time.
ThreadSpec feeder(int first, int steps) {
  ThreadSpec thread{"feeder", Role::script, {}};
  for (int step = first; step < first + steps; ++step) {
    for (const LayerIndex layer : kVisits) append(thread.script, read(layer, step, 0));
  }
  return thread;
}

// The gradient drain: a layer's gradients come once its last copy is there, lease or no lease.
Script pushes_after_copies(int first, int step) {
  const int done = step - first;
  Script script;
  const int copies[kLayers] = {done + 1, 2 * done + 2, done + 1};
  for (LayerIndex layer = kLayers - 1; layer >= 0; --layer) {
    script.push_back({Action::await_copies, layer, step, 0, copies[layer]});
    append(script, push(layer, step, 0));
  }
  script.push_back({Action::expect_full, 1, step, 0});
  return script;
}

// Relay and gradient drain: the steps of a run, with `before_step` in front of step `at`.
ThreadSpec trainer(int first, int steps, const Script& before_step = {}, int at = -1) {
  ThreadSpec thread{"trainer", Role::script, {}};
  for (int step = first; step < first + steps; ++step) {
    if (step == at) append(thread.script, before_step);
    thread.script.push_back(begin(step));
    append(thread.script, pushes_after_copies(first, step));
    thread.script.push_back(finish(step));
  }
  thread.script.push_back(kComplete);
  return thread;
}

// Everything that a device does in one step, in one thread.
Script visits_and_pushes(int step, int device) {
  Script script;
  for (const LayerIndex layer : kVisits) append(script, read(layer, step, device));
  for (LayerIndex layer = kLayers - 1; layer >= 0; --layer) append(script, push(layer, step, device));
  return script;
}

// One device that leads the run and one that follows.
std::vector<ThreadSpec> two_devices(int steps) {
  ThreadSpec leader{"device 0", Role::script, {}}, follower{"device 1", Role::script, {}};
  for (int step = 0; step < steps; ++step) {
    leader.script.push_back(begin(step));
    append(leader.script, visits_and_pushes(step, 0));
    leader.script.push_back(finish(step));
    follower.script.push_back({Action::await_step, 0, step});
    append(follower.script, visits_and_pushes(step, 1));
  }
  leader.script.push_back(kComplete);
  return {leader, follower, {"updater", Role::updater, {}}};
}

// A run that saves before the steps of `at`, one thread for all but updater and saver.
std::vector<ThreadSpec> saving(int steps, const std::vector<int>& at) {
  ThreadSpec run{"run", Role::script, {}};
  bool saved = false;
  for (int step = 0; step < steps; ++step) {
    for (const int save : at) {
      if (save != step) continue;
      if (saved) run.script.push_back(kSaved);
      run.script.push_back(kSave);
      saved = true;
    }
    run.script.push_back(begin(step));
    append(run.script, visits_and_pushes(step, 0));
    run.script.push_back(finish(step));
  }
  run.script.push_back(kComplete);
  return {run, {"updater", Role::updater, {}}, {"saver", Role::saver, {}}};
}

// The same without saves.
std::vector<ThreadSpec> stepping(int steps) {
  std::vector<ThreadSpec> threads = saving(steps, {});
  std::erase_if(threads, [](const ThreadSpec& thread) { return thread.role == Role::saver; });
  return threads;
}

// A run with saves, with the layers of each step set before it.
std::vector<ThreadSpec> exchanging(std::vector<ThreadSpec> threads) {
  Script exchanged;
  for (const Operation& operation : threads[0].script) {
    if (operation.action == Action::begin_step && operation.step > 0) {
      exchanged.push_back({Action::exchange, 0, operation.step});
    }
    exchanged.push_back(operation);
  }
  threads[0].script = std::move(exchanged);
  return threads;
}

// Feeder and relay against the saver: a lease and a save of the same group.
std::vector<ThreadSpec> saving_beside_a_feeder() {
  return {feeder(0, 2), trainer(0, 2, {kSave}, 1), {"updater", Role::updater, {}}, {"saver", Role::saver, {}}};
}

std::vector<ThreadSpec> training(int first, int steps) {
  return {feeder(first, steps), trainer(first, steps), {"updater", Role::updater, {}}};
}

// Leases of both uses of the table overlap, and outlive the push of the last gradients.
std::vector<ThreadSpec> overlapping_leases() {
  ThreadSpec reader{"reader", Role::script, {}};
  for (int step = 0; step < 2; ++step) {
    const Script head = read(2, step, 0), embedding = read(0, step, 0), block = read(1, step, 0);
    append(reader.script, block);
    append(reader.script, {head[0], head[1], embedding[0], embedding[1], head[2], embedding[2]});
    append(reader.script, block);
    append(reader.script, {head[3], embedding[3]});
  }
  return {reader, trainer(0, 2), {"updater", Role::updater, {}}};
}

const ThreadSpec kSecondUpdater = {"updater of lane 1", Role::updater, {}, 1};

std::vector<ThreadSpec> with_second_updater(std::vector<ThreadSpec> threads) {
  threads.push_back(kSecondUpdater);
  return threads;
}

// One rank of several.
std::vector<ThreadSpec> with_courier(std::vector<ThreadSpec> threads) {
  threads.push_back({"courier", Role::courier, {}});
  return threads;
}

std::vector<ThreadSpec> resumed(int step) {
  std::vector<ThreadSpec> threads = training(step, 1);
  ThreadSpec& run = threads[1];
  run.script.insert(run.script.begin(), {Action::restore, 0, step});
  return threads;
}

}  // namespace

ModelLayout tied_layout(bool exchanged) {
  ModelLayout layout;
  layout.groups = {group("wte", 0), group("h.0", 1), group("ln_f", 2), group("h.1", 3)};
  layout.layers = {{"embedding", 0, {{0, 0}}, 4}, {"h.0", 1, {{1, 0}}, 4}, {"head", 2, {{2, 0}, {0, 4}}, 8}};
  if (exchanged) {
    layout.layers[1] = {"h.1", 3, {{3, 0}}, 4};
    layout.layers[2] = {"head", 2, {{2, 0}}, 4};
  }
  return layout;
}

std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> scenarios;
  for (const bool held : {false, true}) {
    const std::string mode = held ? "Held" : "Eager";
    const auto add = [&](const std::string& name, int steps, std::vector<ThreadSpec> threads) -> Scenario& {
      scenarios.push_back({.name = mode + name, .held = held, .steps = steps, .threads = std::move(threads)});
      return scenarios.back();
    };
    add("Training", 2, training(0, 2));
    add("OverlappingLeases", 2, overlapping_leases());
    add("TwoDevices", 2, two_devices(2)).devices = 2;
    add("SaveInTheMiddle", 3, saving(3, {1}));
    add("TwoSaves", 2, saving(2, {0, 1}));
    add("SaveGivenUp", 2, saving(2, {1})).give_up_after = 1;
    add("SaveBesideAFeeder", 2, saving_beside_a_feeder());
    // Neighbours in the relay lie in different lanes.
    add("TwoLanes", 2, with_second_updater(training(0, 2))).lanes = {0, 1, 0, 1};
    add("SaveWithTwoLanes", 2, with_second_updater(saving(2, {1}))).lanes = {0, 1, 1, 0};
    add("Resumed", 1, resumed(5)).first_step = 5;
    add("Exchange", 3, exchanging(saving(3, {}))).exchanged_step = 1;
    add("ExchangeBesideSaves", 3, exchanging(saving(3, {1, 2}))).exchanged_step = 1;
    Scenario& longer = add("ExchangeOfTwoSteps", 4, exchanging(with_second_updater(saving(4, {2}))));
    longer.lanes = {0, 1, 0, 0};  // the block that is out of use may stay behind
    longer.exchanged_step = 1;
    longer.exchanged_steps = 2;
    Scenario& exchanging_two = add("ExchangeOfTwoDevices", 3, exchanging(two_devices(3)));
    exchanging_two.devices = 2;
    exchanging_two.exchanged_step = 1;
    add("TwoRanks", 2, with_courier(training(0, 2))).ranks = 2;
    add("SaveOfTwoRanks", 2, with_courier(saving(2, {1}))).ranks = 2;
    add("TwoExchangesAtATime", 2, with_courier(with_courier(stepping(2)))).ranks = 2;
    Scenario& summing_two = add("SumsOfTwoRanks", 2, with_courier(with_courier(stepping(2))));
    summing_two.ranks = 2;
    summing_two.sums = 1;
    Scenario& sharded = add("ShardedWire", 2, with_courier(training(0, 2)));
    sharded.ranks = 2;
    sharded.sharded_wire = true;
    for (const int sums : {1, 2}) {
      Scenario& summing =
          add("SumsWithTwoLanes" + std::to_string(sums), 2, with_courier(with_second_updater(stepping(2))));
      summing.ranks = 2;
      summing.sums = sums;
      summing.lanes = {0, 1, 0, 1};
    }
    Scenario& exchanging_ranks = add("ExchangeOfTwoRanks", 3, with_courier(exchanging(saving(3, {2}))));
    exchanging_ranks.ranks = 2;
    exchanging_ranks.exchanged_step = 1;
    Scenario& rejected_ranks = add("BlockOfTwoRanksNotFinite", 2, with_courier(training(0, 2)));
    rejected_ranks.ranks = 2;
    rejected_ranks.broken_step = 1;
    rejected_ranks.broken_group = 1;
    if (held) {
      Scenario& skipping = add("SkippedStepOfTwoRanks", 3, with_courier(saving(3, {2})));
      skipping.ranks = 2;
      skipping.skipped_step = 1;
    }
    for (const int skipped : {1, 2}) {
      if (!held) continue;
      Scenario& both = add("ExchangeSkipping" + std::to_string(skipped), 3, exchanging(saving(3, {2})));
      both.exchanged_step = 1;
      both.skipped_step = skipped;
    }
    if (held) {
      add("SkippedStep", 3, training(0, 3)).skipped_step = 1;
      add("SkippedWhileSaving", 3, saving(3, {1})).skipped_step = 1;
    }
    for (const GroupIndex broken : {0, 1}) {
      Scenario& rejected = add(broken == 0 ? "TableNotFinite" : "BlockNotFinite", 2, training(0, 2));
      rejected.broken_step = 1;
      rejected.broken_group = broken;
    }
  }
  return scenarios;
}

}  // namespace l2l::eps::model

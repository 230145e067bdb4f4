// Every schedule of the hand-over: readers, pushers, the relay and the updater take their steps in every order that
// their own programs allow, and a ledger that knows nothing of the machine's states says what must never happen.
#include "eps/hand_over.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "l2l/errors.h"
#include "tests/eps/fault_points.h"

namespace l2l::eps {
namespace {

constexpr LayerIndex kLayers = 3;  // embedding, block, head
constexpr int kGroups = 3;         // tied table, block, norm

GroupSpec group(const std::string& name, std::uint32_t id) {
  return {name, id, {{.name = name + ".weight", .shape = {4}}}, 4};
}

ModelLayout layout() {
  ModelLayout layout;
  layout.groups = {group("wte", 0), group("h.0", 1), group("ln_f", 2)};
  layout.layers = {{"embedding", 0, {{0, 0}}, 4}, {"h.0", 1, {{1, 0}}, 4}, {"head", 2, {{2, 0}, {0, 4}}, 8}};
  return layout;
}

bool uses(LayerIndex layer, GroupIndex group) {
  return layer == 0 ? group == 0 : layer == 1 ? group == 1 : group == 2 || group == 0;
}

struct Setting {
  int devices;
  bool held;
  int steps;
  int skipped = -1;  // this step, if any, is skipped
};

// What one device's reader and pusher have done.
struct DeviceLedger {
  int pulls = 0;              // of the whole run: embedding, block, head, block, embedding in each step
  int leased[kLayers] = {};   // live leases
  bool pushed[kLayers] = {};  // in the open step
};

struct Ledger {
  std::vector<DeviceLedger> devices;
  int begun = 0, finished = 0;  // steps
  int updates[kGroups] = {};    // finished
  int skips[kGroups] = {};      // steps that gave the group a new version without an update
  int checks[kGroups] = {};     // finished
  std::optional<Job> running;

  std::string key() const {
    std::string text;
    for (const DeviceLedger& device : devices) {
      text += static_cast<char>(device.pulls);
      for (LayerIndex layer = 0; layer < kLayers; ++layer) {
        text += static_cast<char>(device.leased[layer]);
        text += static_cast<char>(device.pushed[layer]);
      }
    }
    for (int i = 0; i < kGroups; ++i) text += {static_cast<char>(updates[i]), static_cast<char>(checks[i])};
    text += {static_cast<char>(begun), static_cast<char>(finished)};
    text += running ? static_cast<char>(1 + running->group + 10 * static_cast<int>(running->kind)) : '\0';
    return text;
  }
};

class Explorer {
 public:
  explicit Explorer(const Setting& setting) : setting_(setting) {}

  // Visits every reachable state once; the laws that were broken are in violations().
  void explore() {
    const ModelLayout model = layout();
    Ledger ledger;
    ledger.devices.resize(static_cast<std::size_t>(setting_.devices));
    visit({HandOver(model, setting_.devices, setting_.held), ledger});
    while (!pending_.empty()) {
      const World world = pending_.back();
      pending_.pop_back();
      expand(world);
    }
  }

  const std::map<std::string, int>& violations() const { return violations_; }
  std::size_t states() const { return states_; }
  int ends() const { return ends_; }

 private:
  struct World {
    HandOver machine;
    Ledger ledger;
  };

  static constexpr LayerIndex kPullOrder[5] = {0, 1, 2, 1, 0};

  void require(bool condition, const char* law) {
    if (!condition) ++violations_[law];
  }

  void visit(World world) {
    std::vector<HandOver>& same = visited_[world.ledger.key()];
    for (const HandOver& machine : same) {
      if (machine == world.machine) return;
    }
    same.push_back(world.machine);
    ++states_;
    pending_.push_back(std::move(world));
  }

  // Calls `act` on a copy of the world and goes on from there.
  template <typename Act>
  void branch(const World& world, const Act& act) {
    World next = world;
    act(next);
    ++branches_;
    visit(std::move(next));
  }

  void expand(const World& world) {
    branches_ = 0;
    for (int device = 0; device < setting_.devices; ++device) {
      read(world, device);
      for (LayerIndex layer = 0; layer < kLayers; ++layer) {
        release(world, device, layer);
        push(world, device, layer);
      }
    }
    relay(world);
    update(world);
    if (branches_ == 0) {
      ++ends_;
      expect_end(world);
    }
  }

  static DeviceLedger& device_of(World& world, int device) {
    return world.ledger.devices[static_cast<std::size_t>(device)];
  }

  int version_of_next_pull(const DeviceLedger& device) const { return device.pulls / 5; }

  void read(const World& world, int index) {
    const DeviceLedger& device = world.ledger.devices[static_cast<std::size_t>(index)];
    const int version = version_of_next_pull(device);
    if (version >= setting_.steps) return;
    const LayerIndex layer = kPullOrder[device.pulls % 5];
    const HandOver::Availability availability = world.machine.availability(layer, static_cast<Version>(version));
    require(availability != HandOver::Availability::gone, "a version is gone before its last reader");
    if (availability != HandOver::Availability::ready) return;
    for (GroupIndex group = 0; group < kGroups; ++group) {
      if (!uses(layer, group)) continue;
      require(world.ledger.updates[group] + world.ledger.skips[group] == version,
              "a reader gets another version than it asked for");
      require(!(world.ledger.running == Job{JobKind::update, group}), "a reader gets a group that is being updated");
    }
    branch(world, [&](World& next) {
      next.machine.lease(layer);
      ++device_of(next, index).leased[layer];
      ++device_of(next, index).pulls;
    });
  }

  void release(const World& world, int index, LayerIndex layer) {
    if (world.ledger.devices[static_cast<std::size_t>(index)].leased[layer] == 0) return;
    branch(world, [&](World& next) {
      next.machine.release(layer);
      --device_of(next, index).leased[layer];
    });
  }

  // In any order once the layer has its last pull of the open step: the head after three, the embedding after five.
  void push(const World& world, int index, LayerIndex layer) {
    const DeviceLedger& device = world.ledger.devices[static_cast<std::size_t>(index)];
    const int needed = 5 * world.ledger.finished + 5 - layer;
    if (world.ledger.begun == world.ledger.finished || device.pushed[layer] || device.pulls < needed) return;
    require(world.machine.accepts(layer), "a layer does not take the gradients of its step");
    branch(world, [&](World& next) {
      next.machine.push(layer, index);
      device_of(next, index).pushed[layer] = true;
    });
  }

  void relay(const World& world) {
    const Ledger& ledger = world.ledger;
    if (ledger.begun == ledger.finished && ledger.begun < setting_.steps) {
      branch(world, [&](World& next) {
        next.machine.begin_step(static_cast<Version>(next.ledger.begun));
        ++next.ledger.begun;
      });
    }
    if (!world.machine.all_checked()) return;
    for (const int checks : ledger.checks) require(checks == ledger.begun, "a verdict before every check");
    branch(world, [&](World& next) {
      if (next.ledger.finished == setting_.skipped) {
        next.machine.skip();
        for (int& unchanged : next.ledger.skips) ++unchanged;
      } else {
        next.machine.verdict(true);
      }
      ++next.ledger.finished;
      for (DeviceLedger& device : next.ledger.devices) std::fill_n(device.pushed, kLayers, false);
    });
  }

  void update(const World& world) {
    if (world.ledger.running) {
      branch(world, [&](World& next) { finish(next); });
      return;
    }
    World next = world;
    const std::optional<Job> job = next.machine.start_job();
    if (!job) return;
    expect_job(world.ledger, *job);
    next.ledger.running = job;
    ++branches_;
    visit(std::move(next));
  }

  static void finish(World& world) {
    const Job job = *world.ledger.running;
    if (job.kind == JobKind::check) {
      world.machine.finish_check(job.group, true);
      ++world.ledger.checks[job.group];
    } else {
      world.machine.finish_update(job.group);
      ++world.ledger.updates[job.group];
    }
    world.ledger.running.reset();
  }

  void expect_job(const Ledger& ledger, const Job& job) {
    if (job.kind == JobKind::check) {
      require(ledger.checks[job.group] == ledger.updates[job.group] + ledger.skips[job.group],
              "a group is checked twice");
      for (const DeviceLedger& device : ledger.devices) {
        for (LayerIndex layer = 0; layer < kLayers; ++layer) {
          require(!uses(layer, job.group) || device.pushed[layer], "a check before the last contribution");
        }
      }
      return;
    }
    const int versions = ledger.updates[job.group] + ledger.skips[job.group];
    require(ledger.checks[job.group] == versions + 1, "an update without its own check");
    require(!setting_.held || ledger.finished == versions + 1, "a held update before the verdict");
    require(versions != setting_.skipped, "an update of a skipped step");
    for (const DeviceLedger& device : ledger.devices) {
      for (LayerIndex layer = 0; layer < kLayers; ++layer) {
        require(!uses(layer, job.group) || device.leased[layer] == 0, "an update under a lease");
      }
    }
  }

  // Nobody can move: then everybody must have arrived.
  void expect_end(const World& world) {
    require(world.ledger.finished == setting_.steps, "a step never ends");
    for (GroupIndex group = 0; group < kGroups; ++group) {
      const int versions = world.ledger.updates[group] + world.ledger.skips[group];
      require(versions == setting_.steps, "an update never comes");
    }
    require(world.machine.all_resting(), "a group never rests");
    for (GroupIndex group = 0; group < kGroups; ++group) {
      require(world.machine.version(group) == static_cast<Version>(setting_.steps), "a version is never published");
      require(world.machine.leases(group) == 0, "a lease is never released");
    }
  }

  const Setting setting_;
  std::map<std::string, std::vector<HandOver>> visited_;
  std::vector<World> pending_;
  std::map<std::string, int> violations_;
  std::size_t states_ = 0;
  int ends_ = 0;
  int branches_ = 0;
};

class EverySchedule : public ::testing::TestWithParam<Setting> {};

TEST_P(EverySchedule, KeepsTheLaws) {
  Explorer explorer(GetParam());
  explorer.explore();
  for (const auto& [law, count] : explorer.violations()) ADD_FAILURE() << law << " (" << count << " times)";
  EXPECT_EQ(explorer.ends(), 1);
  EXPECT_GT(explorer.states(), 100u);
  RecordProperty("states", static_cast<int>(explorer.states()));
}

INSTANTIATE_TEST_SUITE_P(All, EverySchedule,
                         ::testing::Values(Setting{1, false, 2}, Setting{1, true, 2}, Setting{2, false, 1},
                                           Setting{2, true, 1}, Setting{1, true, 2, 0}, Setting{1, true, 3, 1}));

TEST(EveryScheduleTwin, UpdateUnderALeaseIsFound) {
  L2L_NEEDS_FAULT_POINTS();
  const l2l::testing::ArmedFaultPoint armed("eps.update_under_lease");
  Explorer explorer({1, false, 1});
  explorer.explore();
  EXPECT_EQ(explorer.violations().count("an update under a lease"), 1u);
}

struct Machine : HandOver {
  Machine(int devices, bool held) : HandOver(layout(), devices, held) {}
  void push_all() {
    for (LayerIndex layer = 0; layer < kLayers; ++layer) push(layer, 0);
  }
  // Checks everything that is complete; `broken` (or none: -1) is not finite. Returns the groups in their order.
  std::vector<GroupIndex> check_all(GroupIndex broken = -1) {
    std::vector<GroupIndex> order;
    while (const std::optional<Job> job = start_job()) {
      if (job->kind == JobKind::check) {
        order.push_back(job->group);
        finish_check(job->group, job->group != broken);
      } else {
        finish_update(job->group);
      }
    }
    return order;
  }
  std::vector<GroupIndex> update_all() {
    std::vector<GroupIndex> order;
    while (const std::optional<Job> job = start_job()) {
      order.push_back(job->group);
      finish_update(job->group);
    }
    return order;
  }
};

TEST(HandOverOrder, HeldUpdatesFollowTheNextForward) {
  Machine machine(1, true);
  machine.begin_step(0);
  machine.push_all();
  EXPECT_EQ(machine.check_all(), (std::vector<GroupIndex>{2, 1, 0}));  // as the backward pass completes them
  EXPECT_FALSE(machine.start_job().has_value());
  machine.verdict(true);
  EXPECT_EQ(machine.update_all(), (std::vector<GroupIndex>{0, 1, 2}));
}

TEST(HandOverOrder, ALeasedGroupIsPassedOver) {
  Machine machine(1, true);
  machine.lease(0);  // the tied table
  machine.begin_step(0);
  machine.push_all();
  machine.check_all();
  machine.verdict(true);
  EXPECT_EQ(machine.update_all(), (std::vector<GroupIndex>{1, 2}));
  EXPECT_EQ(machine.state(0), GroupState::approved);
  machine.release(0);
  EXPECT_EQ(machine.update_all(), (std::vector<GroupIndex>{0}));
}

TEST(HandOverVerdict, RejectedGroupsRestAtTheirVersion) {
  Machine eager(1, false);
  eager.begin_step(0);
  eager.push_all();
  eager.check_all(1);
  EXPECT_TRUE(eager.all_checked());
  eager.verdict(false);
  EXPECT_EQ(eager.version(0), 1u);
  EXPECT_EQ(eager.version(1), 0u);
  EXPECT_TRUE(eager.all_resting());

  Machine held(1, true);
  held.begin_step(0);
  held.push_all();
  held.check_all(1);
  held.verdict(false);
  EXPECT_FALSE(held.start_job().has_value());
  for (GroupIndex group = 0; group < kGroups; ++group) EXPECT_EQ(held.version(group), 0u);
  EXPECT_TRUE(held.all_resting());
}

// A lease may outlive its step: what it sees does not change.
TEST(HandOverVerdict, SkippedGroupsRestAtTheNextVersion) {
  Machine held(1, true);
  held.lease(1);
  held.begin_step(0);
  held.push_all();
  EXPECT_THROW(held.skip(), Error);
  held.check_all(1);
  held.skip();
  EXPECT_FALSE(held.start_job().has_value());
  EXPECT_TRUE(held.all_resting());
  for (GroupIndex group = 0; group < kGroups; ++group) EXPECT_EQ(held.version(group), 1u);
  EXPECT_EQ(held.availability(1, 0), HandOver::Availability::gone);
  EXPECT_EQ(held.availability(1, 1), HandOver::Availability::ready);
  held.release(1);
  held.begin_step(1);
  held.push_all();
  held.check_all();
  held.verdict(true);
  EXPECT_EQ(held.update_all().size(), 3u);

  Machine eager(1, false);
  eager.begin_step(0);
  eager.push_all();
  eager.check_all();
  EXPECT_THROW(eager.skip(), Error);
}

TEST(HandOverContributions, HeadComesBeforeEmbeddingAndDevicesAscend) {
  const Machine machine(2, false);
  EXPECT_EQ(machine.contributions(0), 4u);
  EXPECT_EQ(machine.contribution(2, 1, 0), 0u);
  EXPECT_EQ(machine.contribution(2, 1, 1), 1u);
  EXPECT_EQ(machine.contribution(0, 0, 0), 2u);
  EXPECT_EQ(machine.contribution(0, 0, 1), 3u);
}

TEST(HandOverErrors, CallsOutOfOrder) {
  Machine machine(1, false);
  EXPECT_THROW(machine.push(0, 0), Error);
  EXPECT_THROW(machine.release(0), Error);
  EXPECT_THROW(machine.verdict(true), Error);
  EXPECT_THROW(machine.finish_check(0, true), Error);
  EXPECT_THROW(machine.finish_update(0), Error);
  machine.begin_step(0);
  EXPECT_THROW(machine.begin_step(1), Error);
  EXPECT_THROW(machine.restore(5), Error);
  machine.push(0, 0);
  EXPECT_THROW(machine.push(0, 0), Error);
  EXPECT_THROW(machine.push(1, 1), Error);
}

}  // namespace
}  // namespace l2l::eps

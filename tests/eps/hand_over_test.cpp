// The hand-over by hand: orders, refusals and errors. tests/eps/model explores its schedules.
#include "eps/hand_over.h"

#include <gtest/gtest.h>

#include "l2l/errors.h"
#include "tests/eps/model/scenario.h"

namespace l2l::eps {
namespace {

using model::kGroups;  // tied table, block, norm, and a block that no layer uses
using model::kLayers;  // embedding, block, head

struct Machine : HandOver {
  Machine(int devices, bool held) : HandOver(model::tied_layout(/*exchanged=*/false), devices, held) {}
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

TEST(HandOverOrder, AKnownCheckIsNoJob) {
  for (const bool held : {false, true}) {
    for (const bool finite : {false, true}) {
      Machine machine(1, held);
      machine.begin_step(0);
      machine.push(1, 0, finite);
      EXPECT_EQ(machine.state(1), !held && finite ? GroupState::approved : GroupState::checked);
      machine.push(0, 0);
      machine.push(2, 0);
      EXPECT_EQ(machine.check_all(), (std::vector<GroupIndex>{2, 0}));
      EXPECT_TRUE(machine.all_checked());
    }
  }
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
  for (GroupIndex group = 0; group < kGroups; ++group) EXPECT_EQ(held.version(group), group < 3 ? 0u : 1u);
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

TEST(HandOverSave, GroupsComeAsTheirNextUpdatesWill) {
  Machine eager(1, false), held(1, true);
  const auto order = [](Machine& machine) {
    std::vector<GroupIndex> groups;
    machine.begin_save();
    while (const std::optional<GroupIndex> group = machine.start_save()) {
      groups.push_back(*group);
      machine.finish_save(*group);
    }
    machine.end_save();
    return groups;
  };
  EXPECT_EQ(order(eager), (std::vector<GroupIndex>{2, 1, 0, 3}));
  EXPECT_EQ(order(held), (std::vector<GroupIndex>{0, 1, 2, 3}));
}

TEST(HandOverSave, PendingUpdatesComeFirst) {
  Machine machine(1, true);
  machine.begin_step(0);
  machine.push_all();
  machine.check_all();
  machine.verdict(true);
  machine.begin_save();
  EXPECT_EQ(machine.start_save(), 3) << "has no update";
  EXPECT_FALSE(machine.start_save().has_value());
  EXPECT_EQ(machine.update_all(), (std::vector<GroupIndex>{0, 1, 2}));
  EXPECT_EQ(machine.start_save(), 0);
}

TEST(HandOverErrors, SavesOutOfOrder) {
  Machine machine(1, true);
  EXPECT_THROW(machine.finish_save(0), Error);
  machine.begin_save();
  EXPECT_THROW(machine.begin_save(), Error);
  EXPECT_THROW(machine.restore(3), Error);
  const GroupIndex group = machine.start_save().value();
  EXPECT_THROW(machine.end_save(), Error);
  machine.finish_save(group);
  EXPECT_THROW(machine.finish_save(group), Error);
  machine.end_save();
  machine.begin_step(0);
  EXPECT_THROW(machine.begin_save(), Error);
  machine.push_all();
  machine.check_all(1);
  machine.verdict(false);
  EXPECT_THROW(machine.begin_save(), Error) << "nothing has the version of the next step";
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

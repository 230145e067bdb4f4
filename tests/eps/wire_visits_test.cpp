// The order in which a rank's devices take the layers that are gathered for them.
#include "eps/wire_visits.h"

#include <gtest/gtest.h>

#include "l2l/errors.h"
#include "tests/eps/toy.h"

namespace l2l::eps::testing {
namespace {

constexpr std::array<LayerIndex, 3> kPass = {kEmbedding, kFirstBlock, kHead};

class Visits : public ::testing::Test {
 protected:
  static StoreOptions options() {
    StoreOptions options = toy_options();
    options.devices = 2;
    options.rank = {0, 2};
    options.shard_wire = true;
    options.wire_slots = 2;
    return options;
  }
  // Of the next visit, which is then there.
  VisitId gather() {
    const VisitId id = visits_.next().value();
    visits_[id].started = visits_[id].there = true;
    return id;
  }

  TestMemory memory_;
  WireVisits visits_{toy_layout(), options(), memory_};
};

TEST_F(Visits, AreGatheredOnceForAllDevicesAndAsFarAheadAsThereAreSlots) {
  EXPECT_EQ(memory_.total(), WireVisits::bytes(toy_layout(), options()));
  EXPECT_FALSE(visits_.next().has_value());
  visits_.announce(0, kPass, 7, 2);
  EXPECT_FALSE(visits_.has_announced(1));
  EXPECT_FALSE(visits_.is_there(1)) << "it has announced nothing";
  visits_.announce(1, kPass, 7, 2);
  EXPECT_FALSE(visits_.is_there(0));
  const VisitId first = gather();
  EXPECT_TRUE(visits_.is_there(0));
  const VisitId second = gather();
  EXPECT_EQ(visits_[first].layer, kEmbedding);
  EXPECT_EQ(visits_[second].version, 7U);
  EXPECT_NE(visits_.slot(first), visits_.slot(second));
  EXPECT_FALSE(visits_.next().has_value()) << "both slots are taken";
  EXPECT_EQ(visits_.take(0), first);
  EXPECT_EQ(visits_.take(0), second);
  EXPECT_FALSE(visits_.is_there(0)) << "the third has no slot";
  EXPECT_TRUE(visits_.is_there(1));
  EXPECT_FALSE(visits_.release(first));
  EXPECT_FALSE(visits_.release(second));
  EXPECT_EQ(visits_.take(1), first) << "it is there until the slower device has had it";
  EXPECT_FALSE(visits_.next().has_value());
  EXPECT_TRUE(visits_.release(first));
  EXPECT_EQ(visits_[gather()].layer, kHead);
}

TEST_F(Visits, OfOneDeviceAloneLieBetweenPassesOfAll) {
  visits_.announce(0, std::array{kEmbedding}, 0, 2);
  EXPECT_THROW(visits_.announce(0, std::array{kHead}, 0, 1), Error) << "the other one is in a pass";
}

TEST_F(Visits, TheOtherDeviceGoesOnAfterThem) {
  visits_.announce(0, std::array{kHead}, 1, 1);
  EXPECT_FALSE(visits_.has_announced(1));
  const VisitId alone = gather();
  EXPECT_EQ(visits_.take(0), alone);
  EXPECT_TRUE(visits_.release(alone));
  visits_.announce(1, kPass, 2, 2);
  visits_.announce(0, kPass, 2, 2);
  const VisitId next = gather();
  EXPECT_EQ(visits_.take(0), next);
  EXPECT_EQ(visits_.take(1), next);
}

TEST_F(Visits, DevicesAnnounceTheSame) {
  visits_.announce(0, kPass, 0, 2);
  EXPECT_THROW(visits_.announce(1, std::array{kFirstBlock}, 0, 2), Error);
}

TEST_F(Visits, NeedNoMemoryWhereWiresAreReplicated) {
  StoreOptions replicated = options();
  replicated.shard_wire = false;
  EXPECT_EQ(WireVisits::bytes(toy_layout(), replicated), 0U);
}

}  // namespace
}  // namespace l2l::eps::testing

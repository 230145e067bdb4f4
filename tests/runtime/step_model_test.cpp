// The time of a step of which all pieces are known, by hand.
#include "runtime/tuning/prediction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "tests/support/instrumented.h"

namespace l2l::runtime {
namespace {

VisitCost visit(double compute, double h2d, double d2h, double update, double processor = 0) {
  return {.compute = {compute, processor * compute},
          .h2d = {h2d, h2d},
          .d2h = {d2h, d2h},
          .update = {update, update},
          .gradients = {},
          .weights = {},
          .wires = {}};
}

// Times in seconds; visits 0 and 1 up, 2 the turn, 3 and 4 down.
TEST(StepModel, ComputeHidesWhatRunsBesideIt) {
  StepModel model;
  model.visits = {visit(1, 0.5, 0, 0), visit(4, 1, 1, 0), visit(8, 1, 2, 3), visit(4, 1, 1, 1), visit(2, 0, 1, 0.25)};
  // First wire 0.5, which begins when the last update (of its layer) is done: 0.25 after the last gradients' 1.
  EXPECT_DOUBLE_EQ(model.pipelined(), 0.25 + 0.5 + (1 + 4 + 8 + 4 + 2) + 1);
  EXPECT_EQ(model.step_seconds(), model.pipelined());
  EXPECT_EQ(model.bound(), "device compute");
}

TEST(StepModel, WhatIsLeftWithoutComputeSharesTheCoresAsBefore) {
  StepModel model;
  const VisitCost each = visit(1, 1, 1, 1, /*processor=*/1);
  model.visits = {each, each, each, each, each};
  model.sharing = 1.5;
  ASSERT_TRUE(model.shares());
  double exposed = 0;
  for (const Resource& resource : kResources) {
    StepModel without = model;
    for (VisitCost& visit : without.visits) visit.*resource.cost = Cost{};
    exposed += model.step_seconds() - without.step_seconds(model.shares());
    EXPECT_EQ(without.shares(), resource.cost != &VisitCost::compute);
  }
  EXPECT_LE(exposed, 1.001 * model.step_seconds());
}

TEST(StepModel, TheLinkOrTheParameterServerMayBeTheBound) {
  StepModel model;
  model.visits = {visit(1, 2, 0, 0), visit(1, 6, 0, 0), visit(1, 6, 0, 0), visit(1, 6, 0, 0), visit(1, 0, 0, 0)};
  EXPECT_DOUBLE_EQ(model.pipelined(), 2 + 3 * 6 + 1 + 1);
  EXPECT_EQ(model.bound(), "link to the device");
  model.visits = {visit(1, 0, 0, 0), visit(1, 0, 0, 0), visit(1, 0, 0, 10), visit(1, 0, 0, 10), visit(1, 0, 0, 10)};
  EXPECT_NEAR(model.pipelined(), 30, 4);
  EXPECT_GE(model.pipelined(), 30);
  EXPECT_EQ(model.bound(), "parameter server");
}

TEST(StepModel, ASlotIsFreeWhenItsVisitIsDone) {
  StepModel model;
  model.visits = {visit(1, 1, 0, 0), visit(9, 1, 0, 0), visit(1, 8, 0, 0), visit(1, 8, 0, 0), visit(1, 0, 0, 0)};
  // The third wire may come while the second visit computes; the fourth when that is done.
  EXPECT_DOUBLE_EQ(model.pipelined(), 1 + 1 + 9 + std::max(8.0, 1.0) + 1 + 1);
  model.slots = 4;
  EXPECT_DOUBLE_EQ(model.pipelined(), 1 + 1 + 8 + 8 + 1 + 1);
}

// A wire is there when its slice has come and the others have been gathered; the next slice comes meanwhile.
TEST(StepModel, AGatherOverlapsTheNextCopy) {
  StepModel model;
  model.visits.assign(5, visit(0, 1, 0, 0));
  for (VisitCost& each : model.visits) each.gather = {1, 0};
  EXPECT_DOUBLE_EQ(model.pipelined(), 5 * 1 + 1);
  EXPECT_EQ(model.bound(), "link to the device");
  model.slots = 5;
  for (VisitCost& each : model.visits) each.gather = {3, 0};
  EXPECT_DOUBLE_EQ(model.pipelined(), 1 + 5 * 3);
  EXPECT_EQ(model.bound(), kPeerLinks.name);
}

TEST(StepModel, HeldUpdatesAreReadyInTheOrderOfTheNextForward) {
  StepModel model;
  model.held = true;
  model.visits = {visit(1, 0, 0, 0), visit(1, 0, 0, 0), visit(4, 0, 0, 1), visit(1, 0, 0, 3), visit(1, 0, 0, 2)};
  EXPECT_DOUBLE_EQ(model.pipelined(), 2 + 3 + 1 + 4 + 1 + 1);  // the second visit waits for 2 + 3
  model.held = false;
  EXPECT_DOUBLE_EQ(model.pipelined(), 8 + 3 - 1 + 2);  // updates of 3 begin one visit before the end, then the 2
}

// While the update of the third layer takes its 10, gradients of the second arrive, then those of the first.
TEST(StepModel, OfUpdatesThatWaitTheOneThatIsNeededFirstComesFirst) {
  StepModel model;
  model.visits = {visit(1, 0, 0, 0), visit(1, 0, 0, 0), visit(1, 0, 0, 10), visit(1, 0, 0, 5), visit(1, 0, 0, 2)};
  EXPECT_DOUBLE_EQ(model.pipelined(), 10 + 2 + 5 + 1 + 1);  // the other way round it would be 1 more
}

TEST(StepModel, ManyLayersTakeTimeInProportion) {
  L2L_NEEDS_TRUE_TIMES();
  constexpr std::size_t kLayers = 20'000;
  StepModel model;
  for (std::size_t i = 0; i < 2 * kLayers - 1; ++i) model.visits.push_back(visit(1, 0, 0, i + 1 < kLayers ? 0 : 0.5));
  for (const bool held : {true, false}) {
    model.held = held;
    const std::clock_t start = std::clock();  // of the processor
    EXPECT_DOUBLE_EQ(model.pipelined(), 2 * kLayers - 1 + 0.5);
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 2) << held;  // else some 20 s
  }
}

TEST(StepModel, ADeviceThatSharesTheCoresPaysForAll) {
  StepModel model;
  model.cores = 2;
  model.sharing = 1.25;
  model.visits.assign(11, visit(2, 1, 1, 1, 2.0));
  EXPECT_TRUE(model.shares());
  EXPECT_DOUBLE_EQ(model.step_seconds(), 1.25 * (44 + 33) / 2.0);
  for (VisitCost& cost : model.visits) cost.update.processor = cost.h2d.processor = cost.d2h.processor = 0.01;
  for (VisitCost& cost : model.visits) cost.compute.processor = 3;  // of 4: the rest fits into what it leaves idle
  EXPECT_DOUBLE_EQ(model.shared(), 22);
  for (VisitCost& cost : model.visits) cost.compute.processor = 0;  // computed elsewhere
  EXPECT_FALSE(model.shares());
  EXPECT_LT(model.step_seconds(), 22 + 5);
}

// Five visits of which the last three have gradients; exchanges of a visit take `gradients` and `weights` seconds.
StepModel exchanging(double gradients, double weights) {
  constexpr double kBandwidth = 1e6;
  StepModel model;
  model.visits = {visit(1, 0, 0, 0), visit(1, 0, 0, 0), visit(4, 0, 0, 1), visit(4, 0, 0, 1), visit(4, 0, 0, 1)};
  model.network = kBandwidth;
  const auto bytes = [](double seconds) { return static_cast<Bytes>(kBandwidth * seconds); };
  for (std::size_t i = 2; i < 5; ++i) {
    model.visits[i].gradients = {bytes(gradients), bytes(gradients / 2)};
    model.visits[i].weights = {bytes(weights / 2), bytes(weights)};
  }
  return model;
}

TEST(StepModel, TheNetworkHidesBehindComputeButForTheLayerThatIsNeededFirst) {
  const double compute = 14;
  EXPECT_DOUBLE_EQ(exchanging(0, 0).pipelined(), compute + 1);
  // The lowest layer's gradients, its update and its weights, after each other.
  EXPECT_DOUBLE_EQ(exchanging(1, 0.5).pipelined(), compute + 1 + 1 + 0.5);
  EXPECT_DOUBLE_EQ(exchanging(1, 0.5).network_seconds(), 3 * (1 + 0.5 / 2));
  EXPECT_EQ(exchanging(1, 0.5).bound(), "device compute");
}

TEST(StepModel, DirectionsOfTheNetworkAreBusyAtOnce) {
  StepModel model = exchanging(8, 8);
  // From the first gradients on, each direction moves 3 x 8 and 3 x 4 until the last weights are there, but that the
  // last of 8 one way begin when all of 8 the other way have ended, and one update.
  EXPECT_GE(model.pipelined(), 6 + 3 * 8 + 3 * 4);
  EXPECT_EQ(model.bound(), kNetwork);
  model.network = 0;
  EXPECT_EQ(model.pipelined(), exchanging(0, 0).pipelined());
  EXPECT_EQ(model.network_seconds(), 0);
}

TEST(StepModel, ABufferIsFreeWhenItsUpdateIsDone) {
  StepModel model;
  model.visits = {visit(1, 0, 0, 0),  visit(1, 0, 0, 0),  visit(1, 0, 0, 0), visit(1, 0, 0, 10),
                  visit(1, 0, 0, 10), visit(1, 0, 0, 10), visit(1, 0, 0, 10)};
  const double many = model.pipelined();
  model.gradient_buffers = 1;
  // Three updates before the last gradients may leave, and the forward pass waits for the last one.
  EXPECT_DOUBLE_EQ(model.pipelined(), 3 + 1 + 4 * 10);
  EXPECT_LT(many, model.pipelined());
  // Summed first, gradients have left at once where exchanges take no time.
  model.sums = true;
  EXPECT_EQ(model.pipelined(), many);
  model.held = true;
  const double held = model.pipelined();
  model.sums = false;
  model.gradient_buffers = 4;  // each layer has its own
  EXPECT_EQ(model.pipelined(), held);
}

// Of 32 layers, for whose exchanges the network takes `share` of compute; weights go once, or for each of two visits.
StepModel thirty_two_layers(double share, bool sharded) {
  constexpr std::size_t kLayers = 32;
  StepModel model;
  model.network = 1e9;
  model.wire_slots = 3;
  const auto bytes = static_cast<Bytes>(model.network * share * 3 / 2);  // of the gradients of one, or of its weights
  for (std::size_t i = 0; i < 2 * kLayers - 1; ++i) {
    const bool down = i + 1 >= kLayers;
    VisitCost each = visit(i + 1 == kLayers ? 3 : down ? 2 : 1, 0, 0, down ? 0.05 : 0);
    if (down) each.gradients = {bytes, bytes};
    if (down && !sharded) each.weights = {bytes, bytes};
    if (sharded) each.wires = {bytes / 2, bytes / 2};
    model.visits.push_back(each);
  }
  return model;
}

TEST(StepModel, GatheredWeightsHideWhereReplicatedOnesDo) {
  for (const bool held : {false, true}) {
    for (const double share : {0.3, 0.6, 0.8}) {
      StepModel replicated = thirty_two_layers(share, false), sharded = thirty_two_layers(share, true);
      replicated.held = sharded.held = held;
      EXPECT_LE(sharded.pipelined(), 1.01 * replicated.pipelined()) << held << share;
    }
  }
  // Negative control: where it does not hide, it shows.
  EXPECT_GT(thirty_two_layers(1.5, true).pipelined(), 1.4 * thirty_two_layers(0.3, true).pipelined());
}

TEST(StepModel, TheBandwidthThatHidesTheNetworkIsTheLeastOne) {
  const StepModel model = exchanging(1, 0.5);
  StepModel hidden = model, shows = model;
  hidden.network = hiding_bandwidth(model, 0.05).value();
  shows.network = 0.99 * hidden.network;
  const double alone = exchanging(0, 0).pipelined();
  EXPECT_LE(hidden.pipelined(), 1.05 * alone);
  EXPECT_GT(shows.pipelined(), 1.05 * alone);
  EXPECT_NEAR(hidden.network, 1.5e6 / (0.05 * alone), 1e3);
  EXPECT_FALSE(hiding_bandwidth(exchanging(0, 0), 0.05));
}

}  // namespace
}  // namespace l2l::runtime

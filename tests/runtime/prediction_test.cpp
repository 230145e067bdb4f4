// The pieces of a step are those that a run counts, and on a device whose durations are known their prediction is the
// step.
#include "runtime/tuning/prediction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "collectives/paced.h"
#include "collectives/threads.h"
#include "compiler/ir/graph.h"
#include "device/forwarding_device.h"
#include "device/open.h"
#include "device/paced/paced_device.h"
#include "l2l/errors.h"
#include "runtime/plan/fixed_decisions.h"
#include "runtime/plan/memory_contract.h"
#include "runtime/plan_run.h"
#include "runtime/tuning/shallow_run.h"
#include "tests/runtime/test_data.h"
#include "tests/support/instrumented.h"
#include "tests/support/temporary_folder.h"
#include "tools/bench/h100_nodes.h"
#include "tools/bench/measured_run.h"

namespace l2l::runtime {
namespace {

using std::chrono::microseconds;
using testing::TemporaryFolder;

Options small_options() {
  Options options;
  options.precision.compute = "fp32";
  options.model = {.layers = 4, .hidden = 64, .heads = 4, .sequence = 16, .dropout = 0};
  options.batch = {.micro_batch = 2, .micro_batches = 3};
  options.device.kind = "host";
  options.eps.threads = 1;
  options.recompute.policy = "full";
  return options;
}

StepPrediction predict_thoroughly(const RunPlan& plan, Calibration& calibration) {
  MeasuringSession session({.seconds = Measuring::kThorough});
  return predict_step(plan, calibration, &session);
}

void count_work(const Options& options) {
  const RunPlan plan = plan_run(options);
  Bytes h2d = 0, d2h = 0;
  std::size_t updated = 0;
  for (const VisitWork& visit : step_work(plan)) {
    h2d += visit.h2d();
    d2h += visit.d2h();
    updated += visit.updated.size();
  }
  EXPECT_EQ(updated, plan.model.layout.groups.size());
  Engine engine(plan, nullptr);
  const auto bytes = [&](transfer::Traffic traffic) { return engine.link().h2d(traffic) + engine.link().d2h(traffic); };
  engine.train(0, 1e-3);
  engine.store().complete_updates();
  EXPECT_EQ(h2d + d2h,
            bytes(transfer::Traffic::weights) + bytes(transfer::Traffic::stash) + bytes(transfer::Traffic::gradients));
  EXPECT_EQ(eps::ParameterStore::bytes_moved(plan.model.layout, plan.store), engine.store().work().bytes);
  EXPECT_GT(engine.store().work().busy.count(), 0);
}

// The link's counters are the independent witness, and the store's count of its jobs.
TEST(StepWork, IsWhatARunCounts) {
  for (const char* const execution : {"relay", "resident"}) {
    for (const std::string stash : {"host", "device", "none"}) {
      for (const int chunk : {0, 100, 256}) {
        for (const char* const compute : {"fp32", "bf16"}) {
          SCOPED_TRACE(std::string(execution) + ", stash " + stash + ", chunks of " + std::to_string(chunk) + ", " +
                       compute);
          Options options = small_options();
          options.device.execution = execution;
          // "none": blocks rebuild their inputs.
          if (stash == "none") options.model.reversible = "float";
          if (stash != "none") options.transfer.stash = stash;
          options.transfer.vocabulary_chunk = chunk;
          options.precision.compute = compute;
          options.optimizer.clip = chunk == 0 ? "global" : "none";
          count_work(options);
        }
      }
    }
  }
}

// Of the first device of those over which layers are split.
TEST(StepWork, OfSplitLayersIsWhatARunCounts) {
  for (const char* const execution : {"relay", "resident"}) {
    for (const char* const stash : {"host", "device"}) {
      SCOPED_TRACE(std::string(execution) + ", stash " + stash);
      Options options = small_options();
      options.device.execution = execution;
      options.transfer.stash = stash;
      options.device.count = options.device.tensor = 2;
      count_work(options);
    }
  }
}

// By hand: traffic per parameter of AdamW is 28 bytes in fp32: a gradient, three arrays read and written. Gradients of
// layers that are shared with the table are read twice, for a check; the table's come twice.
TEST(StepWork, BytesOfTheParameterServerByHand) {
  Options options = small_options();
  options.transfer.vocabulary_chunk = 256;
  const RunPlan plan = plan_run(options);
  const Bytes block = 12 * 64 * 64 + 13 * 64, table = 256 * 64, positions = 16 * 64, norm = 2 * 64;
  EXPECT_EQ(eps::ParameterStore::bytes_moved(plan.model.layout, plan.store),
            28 * 4 * block + 32 * (positions + norm) + (24 + 2 * 8) * table);
}

VisitCost visit(double compute, double h2d, double d2h, double update, double processor = 0) {
  return {.compute = {compute, processor * compute},
          .h2d = {h2d, h2d},
          .d2h = {d2h, d2h},
          .update = {update, update},
          .gradients = {},
          .weights = {}};
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

class Paced : public ::testing::Test {
 protected:
  static device::PaceTable table(Bytes bandwidth) {
    device::PaceTable table;
    table.h2d_bandwidth = table.d2h_bandwidth = bandwidth;
    table.launches = {
        {"block", microseconds(2000)}, {"block backward", microseconds(6000)}, {"head backward", microseconds(2000)}};
    return table;
  }
  static Options options() {
    Options options = small_options();
    options.model.layers = 8;
    options.transfer.stash = "host";
    return options;
  }
  static Options two_devices() {
    Options two = options();
    two.batch.micro_batches = 4;
    two.transfer.stash = "device";
    two.device.count = 2;
    return two;
  }
  StepPrediction predict(const device::PaceTable& paces, bool measure) const {
    const RunPlan plan = plan_run(options(), {std::make_shared<device::PacedDevice>(paces)});
    Calibration calibration(file_, "test");
    return measure ? predict_thoroughly(plan, calibration) : predict_step(plan, calibration, nullptr);
  }
  static double measured_ms(const device::PaceTable& paces) {
    return tools::measure({options(), paces, true}, /*warm_up=*/1, /*steps=*/3).schedule.step_ms;
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "calibration.json";
};

// The table is known, and the paced device's steps are real; attempts, since feeder, drain and parameter server are
// threads on cores that others use.
TEST_F(Paced, ThePredictedStepIsTheStep) {
  L2L_NEEDS_TRUE_TIMES();
  for (const Bytes bandwidth : {Bytes{1} << 32, Bytes{6'000'000}}) {  // compute is the bound; the link is
    double ratio = 0;
    StepPrediction prediction;
    for (int attempt = 0; attempt < 3 && std::abs(ratio - 1) > 0.05; ++attempt) {
      std::filesystem::remove(file_);
      prediction = predict(table(bandwidth), /*measure=*/true);
      ASSERT_TRUE(prediction.step_ms);
      ratio = *prediction.step_ms / measured_ms(table(bandwidth));
    }
    EXPECT_NEAR(ratio, 1, 0.05) << bandwidth;
    EXPECT_EQ(prediction.bound, bandwidth > 1'000'000'000 ? "device compute" : "link to the device");
  }
}

// Of two devices: the step as it is measured and as it is predicted, in attempts as above.
struct StepOfTwo {
  double measured_ms = 0;
  StepPrediction prediction;
};
StepOfTwo step_of_two(const Options& options, const device::PaceTable& paces, const std::filesystem::path& file) {
  StepOfTwo step;
  double ratio = 0;
  for (int attempt = 0; attempt < 3 && std::abs(ratio - 1) > 0.05; ++attempt) {
    std::filesystem::remove(file);
    step.measured_ms = tools::measure({options, paces, true}, /*warm_up=*/1, /*steps=*/3).schedule.step_ms;
    const auto device = [&] { return std::make_shared<device::PacedDevice>(paces); };
    const RunPlan plan = plan_run(options, {device(), device()});
    Calibration calibration(file, "test");
    step.prediction = predict_thoroughly(plan, calibration);
    ratio = step.prediction.step_ms.value_or(0) / step.measured_ms;
  }
  EXPECT_NEAR(ratio, 1, 0.05) << paces.peer_bandwidth;
  return step;
}

// Of two devices that gather, each link carries half of the weights, and the devices send each other theirs.
TEST_F(Paced, ThePredictedStepIsTheStepOfDevicesThatGather) {
  L2L_NEEDS_TRUE_TIMES();
  Options two = two_devices();
  device::PaceTable paces = table(Bytes{6'000'000});
  paces.d2h_bandwidth = Bytes{1} << 32;
  const double whole = step_of_two(two, paces, file_).measured_ms;
  two.device.feed = "gathered";
  for (const Bytes bandwidth : {Bytes{1} << 32, Bytes{3'000'000}}) {
    paces.peer_bandwidth = bandwidth;
    const auto [gathered, prediction] = step_of_two(two, paces, file_);
    const bool fast = bandwidth > 1'000'000'000;
    EXPECT_EQ(prediction.bound, fast ? "link to the device" : kPeerLinks.name);
    EXPECT_EQ(prediction.lines.back().what, kPeerLinks.name);
    EXPECT_NEAR(whole / gathered, fast ? 2 : 1, 0.2) << bandwidth;
  }
}

// Of two devices that sum, each link carries half of the sums instead of all gradients; an exchange and the copy of its
// sums follow each other.
TEST_F(Paced, ThePredictedStepIsTheStepOfDevicesThatSum) {
  L2L_NEEDS_TRUE_TIMES();
  Options two = two_devices();
  device::PaceTable paces = table(Bytes{3'000'000});
  paces.h2d_bandwidth = Bytes{1} << 32;
  const double on_host = step_of_two(two, paces, file_).measured_ms;
  two.device.sums = "devices";
  for (const Bytes bandwidth : {Bytes{1} << 32, Bytes{3'000'000}}) {
    paces.peer_bandwidth = bandwidth;
    const auto [summed, prediction] = step_of_two(two, paces, file_);
    const bool fast = bandwidth > 1'000'000'000;
    if (fast) EXPECT_EQ(prediction.bound, "link to the host");
    EXPECT_EQ(prediction.lines.back().what, kExchanges.name);
    EXPECT_NEAR(on_host / summed, fast ? 2 : 1, 0.2) << bandwidth;
  }
}

TEST_F(Paced, NodesArePlannedByOneProcess) {
  Options several = options();
  several.batch.micro_batches *= 4;
  several.distributed.nodes = 4;
  const auto plan_of = [&](const Options& of) {
    return plan_run(of, {std::make_shared<device::PacedDevice>(table(Bytes{1} << 32))});
  };
  Calibration calibration(file_, "test");
  const StepPrediction unknown = predict_thoroughly(plan_of(several), calibration);
  ASSERT_TRUE(unknown.nodes);
  EXPECT_EQ(unknown.nodes->nodes, 4);
  EXPECT_EQ(unknown.nodes->efficiency, std::nullopt);
  const StepPrediction alone = predict_thoroughly(plan_of(options()), calibration);
  EXPECT_FALSE(alone.nodes);
  EXPECT_NEAR(*unknown.nodes->one_node_ms, *alone.step_ms, 1e-9);
  EXPECT_NEAR(unknown.tokens_per_second * *unknown.step_ms, 4 * alone.tokens_per_second * *alone.step_ms, 1e-3);
  ASSERT_TRUE(unknown.nodes->hidden_from_gb_per_second);

  several.distributed.bandwidth = *unknown.nodes->hidden_from_gb_per_second;
  const StepPrediction hidden = predict_thoroughly(plan_of(several), calibration);
  EXPECT_NEAR(*hidden.nodes->efficiency, 1 / (1 + NodesPrediction::kHidden), 0.01);
  EXPECT_EQ(hidden.lines.back().what, kNetwork);
  several.distributed.bandwidth /= 20;
  const StepPrediction bound = predict_thoroughly(plan_of(several), calibration);
  EXPECT_EQ(bound.bound, kNetwork);
  EXPECT_LT(*bound.nodes->efficiency, 0.6);
}

TEST(Ranks, MeasureTheBandwidthOfTheirNetwork) {
  constexpr Bytes kBandwidth = 200'000'000;
  std::vector<std::unique_ptr<collectives::Transport>> transports = collectives::connected_threads(3);
  std::vector<double> measured(transports.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < transports.size(); ++i) {
    const Bytes own = i == 1 ? kBandwidth : 4 * kBandwidth;  // the least of all counts
    threads.emplace_back([&, i, own] {
      Ranks ranks(collectives::paced(std::move(transports[i]), own));
      measured[i] = ranks.measure_bandwidth();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const double each : measured) EXPECT_EQ(each, measured[0]);
  EXPECT_LE(measured[0], kBandwidth);
  EXPECT_NEAR(measured[0] / kBandwidth, 1, 0.2);
}

TEST_F(Paced, OtherNodesThanProcessesAreRefused) {
  Options several = options();
  several.batch.micro_batches *= 12;
  several.distributed.nodes = 4;
  EXPECT_EQ(resolve(several).rank, (eps::Rank{0, 4}));
  EXPECT_EQ(resolve(several, {3, 4}).rank, (eps::Rank{3, 4}));
  EXPECT_THROW(resolve(several, {1, 3}), BadInput);
  several.distributed.nodes = 0;
  EXPECT_EQ(resolve(several, {1, 3}).rank, (eps::Rank{1, 3}));
}

// Measured on H100s (docs/benchmarks.md, On a GPU), tokens per second.
TEST(H100Nodes, AreAsFastAsMeasured) {
  const auto tokens_per_second = [](int buffers, std::int64_t layers, std::int64_t tokens) {
    Options options = tools::llama(tools::LlamaSize::b7, /*sequence=*/2048, tokens, /*devices=*/1, /*nodes=*/1);
    options.model.layers = layers;
    options.eps.gradient_buffers = buffers;
    return tools::predict_on_h100s(options, tools::kUpdatesOf16Cores).tokens_per_second;
  };
  EXPECT_NEAR(tokens_per_second(9, 32, 16'384) / 9'883, 1, 0.1);
  EXPECT_NEAR(tokens_per_second(3, 32, 16'384) / 8'774, 1, 0.1);
  EXPECT_NEAR(tokens_per_second(3, 8, 65'536) / 41'491, 1, 0.12);
}

// Attempts, since a thread that enqueues late makes a launch look long.
TEST_F(Paced, ResourcesAreWhatTheTableSays) {
  constexpr double kCompute = 3 * (8 * (2 + 6) + 2);
  StepPrediction prediction;
  for (int attempt = 0; attempt < 5; ++attempt) {
    std::filesystem::remove(file_);
    prediction = predict(table(Bytes{1} << 32), /*measure=*/true);
    ASSERT_EQ(prediction.lines.size(), 4u);
    if (std::abs(prediction.lines[0].ms / kCompute - 1) < 0.02) break;
  }
  EXPECT_EQ(prediction.lines[0].what, "device compute");
  EXPECT_NEAR(prediction.lines[0].ms, kCompute, 0.02 * kCompute);
  EXPECT_NEAR(prediction.tokens_per_second, 1e3 * 3 * 2 * 16 / *prediction.step_ms, 1e-6);
  EXPECT_GT(prediction.measured, 5);
  EXPECT_EQ(prediction.cached, 0);
}

TEST_F(Paced, WhatWasMeasuredIsNotMeasuredAgain) {
  const StepPrediction first = predict(table(Bytes{1} << 32), /*measure=*/true);
  const StepPrediction second = predict(table(Bytes{1} << 32), /*measure=*/false);
  EXPECT_EQ(first.step_ms, second.step_ms);
  EXPECT_EQ(second.measured, 0);
  EXPECT_EQ(second.cached, first.measured);
}

TEST_F(Paced, WithoutMeasuringWhatIsMissingIsNamed) {
  const StepPrediction prediction = predict(table(Bytes{1} << 32), /*measure=*/false);
  EXPECT_FALSE(prediction.step_ms);
  const auto& missing = prediction.missing;
  for (const char* const what : {"program \"block\"", "program \"block backward\"", "copies", "update of adamw"}) {
    EXPECT_NE(std::find(missing.begin(), missing.end(), what), missing.end()) << what;
  }
  EXPECT_FALSE(std::filesystem::exists(file_));
}

// A figure that lies must show: half of what the blocks' backward takes is gone from the step.
TEST_F(Paced, NegativeControlAHalvedProgramIsSeen) {
  L2L_NEEDS_TRUE_TIMES();
  const double honest = *predict(table(Bytes{1} << 32), /*measure=*/true).step_ms;
  const RunPlan plan = plan_run(options(), {std::make_shared<device::PacedDevice>(table(Bytes{1} << 32))});
  Calibration calibration(file_, "test");
  const LayerIndex block = plan.model.block(2);
  const device::Executable& backward = *plan.programs.front()->of(block).backward;
  const std::string name = StepCosts(plan, calibration, nullptr).name_of_launch(backward.program().graph);
  const double half = 0.5 * *calibration.find(name);  // of what was measured, on a busy machine more than 6 ms
  calibration.set(name, half);
  calibration.save();
  const double lying = *predict(table(Bytes{1} << 32), /*measure=*/false).step_ms;
  EXPECT_NEAR(honest - lying, 3 * 8 * half * 1e3, 0.02 * 72);
}

TEST(Prediction, OnTheHostCoresAreShared) {
  const TemporaryFolder folder;
  Calibration calibration(folder / "calibration.json", "test");
  const RunPlan plan = plan_run(small_options());
  const StepPrediction prediction = predict_thoroughly(plan, calibration);
  ASSERT_TRUE(prediction.step_ms);
  double exposed = 0;
  for (const PredictionLine& line : prediction.lines) {
    EXPECT_GT(line.ms, 0) << line.what;
    EXPECT_GE(line.exposed_ms, 0) << line.what;
    exposed += line.exposed_ms;
  }
  EXPECT_LE(exposed, 1.001 * *prediction.step_ms);
  EXPECT_TRUE(prediction.state_in_caches);
  EXPECT_FALSE(prediction.memory_gb_per_second) << "says nothing of a state that is in caches";
}

Options split_options() {
  Options options = small_options();
  options.model.hidden = 128;
  options.model.sequence = 64;
  options.device.count = options.device.tensor = 2;
  options.device.threads = 1;
  return options;
}

// Pieces are measured on one device, which waits for no other; attempts, since others use the cores.
TEST(Prediction, ThePredictedStepOfSplitLayersIsTheStep) {
  L2L_NEEDS_TRUE_TIMES();
  double ratio = 0;
  for (int attempt = 0; attempt < 3 && std::abs(ratio - 1) > 0.25; ++attempt) {
    const TemporaryFolder folder;
    Calibration calibration(folder / "calibration.json", "test");
    const RunPlan plan = plan_run(split_options());
    MeasuringSession session({.seconds = Measuring::kThorough});
    const StepPrediction prediction = check_prediction(plan, calibration, session);
    ASSERT_TRUE(prediction.step_ms);
    EXPECT_TRUE(prediction.missing.empty());
    ratio = *prediction.step_ms / prediction.measured_ms.value();
  }
  EXPECT_NEAR(ratio, 1, 0.25);
}

// The devices are members of their group as before, so that steps can follow.
TEST(Prediction, MeasuringLeavesSplitLayersTogether) {
  const TemporaryFolder folder;
  Calibration calibration(folder / "calibration.json", "test");
  const RunPlan plan = plan_run(split_options());
  const auto loss = [&](const RunPlan& run) {
    Engine engine(run, nullptr);
    engine.minibatch().draw(run.model);
    return engine.train(0, 1e-3).loss_sum;
  };
  const double before = loss(plan);
  EXPECT_TRUE(predict_thoroughly(plan, calibration).step_ms);
  EXPECT_EQ(loss(plan), before);
  EXPECT_EQ(loss(RunPlan(plan, plan.decisions)), before) << "compiled after";
}

// What devices get from each other takes time, too.
TEST(Prediction, EstimatesCountWhatIsExchanged) {
  const auto seconds_of = [](std::int32_t devices, compiler::OpKind kind) {
    compiler::GraphBuilder graph("exchange");
    const bool gathers = kind == compiler::OpKind::all_gather_rows;
    const auto x = graph.bound(compiler::Region::input, "x", DType::f32, {gathers ? 1024 / devices : 1024, 1024});
    graph.place(graph.apply(kind, {x}, {.shard = {devices, 0}}), compiler::Region::output);
    return work_of(graph.finish())[static_cast<std::size_t>(PieceSort::memory)];
  };
  constexpr double kAll = 4.0 * (1 << 20) / 1e10;  // seconds at the nominal rate
  for (const std::int32_t devices : {2, 4, 8}) {
    const double share = kAll / devices;
    EXPECT_NEAR(seconds_of(devices, compiler::OpKind::all_gather_rows), 2 * kAll, 1e-5) << "all read, all written";
    EXPECT_NEAR(seconds_of(devices, compiler::OpKind::reduce_scatter_rows), kAll + share, 1e-5) << devices;
  }
}

// A model of one block is its own shallower one, so that its step is what the calibration says. What all tests need is
// measured once.
class OfOneBlock : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    measured_.emplace();
    Calibration calibration(*measured_ / "calibration.json", "test");
    predict_thoroughly(plan_run(options("full", "host")), calibration);
    predict_thoroughly(plan_run(options("none", "device")), calibration);
  }
  static void TearDownTestSuite() { measured_.reset(); }
  static Options options(const std::string& policy, const std::string& stash) {
    Options options = small_options();
    options.model.layers = 1;
    options.recompute.policy = policy;
    options.transfer.stash = stash;
    return options;
  }
  double step_ms(const Options& options) { return *predict_thoroughly(plan_run(options), calibration_).step_ms; }
  std::string name_of_step(const Options& options) {
    const RunPlan plan = plan_run(options);
    return StepCosts(plan, calibration_, nullptr).name_of_step(plan);
  }

  // Of a file of this test.
  static std::filesystem::path copy(const std::filesystem::path& file) {
    std::filesystem::copy_file(*measured_ / "calibration.json", file);
    return file;
  }

  static inline std::optional<TemporaryFolder> measured_;
  const TemporaryFolder folder_;
  Calibration calibration_{copy(folder_ / "calibration.json"), "test"};
  const Options plain_ = options("full", "host"), other_ = options("none", "device");
};

TEST_F(OfOneBlock, AStepIsThatOfPlainBlocksByARatio) {
  Options plain = plain_, other = other_;
  plain.batch.micro_batches = other.batch.micro_batches = 5;  // of which nothing is known yet but the pieces
  calibration_.set("step " + name_of_step(plain), 2);
  const std::string ratio = "step " + name_of_step(other) + " over " + name_of_step(plain);
  calibration_.set(ratio, 0.75);
  calibration_.set(ratio + ", noise", 0.01);
  EXPECT_NEAR(step_ms(plain), 2000, 1e-6);
  EXPECT_NEAR(step_ms(other), 1500, 1e-6);
}

TEST_F(OfOneBlock, RatiosAreKept) {
  const std::optional<double> plain = calibration_.find("step " + name_of_step(plain_));
  const std::optional<double> ratio =
      calibration_.find("step " + name_of_step(other_) + " over " + name_of_step(plain_));
  ASSERT_TRUE(plain && ratio);
  EXPECT_NEAR(step_ms(other_), 1e3 * *plain * *ratio, 1e-9);
  EXPECT_GT(*ratio, 0.1);
  EXPECT_LT(*ratio, 10);
}

// What a run may hold is not asked of the plain one, which may need more of it.
TEST_F(OfOneBlock, LimitsOfTheRunDoNotBindWhatIsMeasured) {
  Options options = other_;
  options.eps.stash_memory = 1;
  EXPECT_GT(step_ms(options), 0);
}

TEST_F(OfOneBlock, FilesAreNotAskedFor) {
  test::Data data;
  data.write("text", std::string(1000, 'a'));
  Options options = other_;
  options.data.train = options.data.validation = {data.path("text")};
  options.run.validate_every = 5;
  options.checkpoint.directory = data.path("checkpoints");
  options.checkpoint.every = 5;
  EXPECT_GT(step_ms(options), 0);
  options.recompute.policy = "auto";
  EXPECT_THROW(fixed_decisions(make_parts(resolve(options))), Error);  // leaves something open
  EXPECT_FALSE(plan_run(options).decisions.explanation.empty());
}

TEST_F(OfOneBlock, WhatWasTakenForADeviceIsSaid) {
  Options options = other_;
  options.device.kind = "auto";
  options.recompute.policy = "auto";
  const RunPlan plan = plan_run(options);
  EXPECT_FALSE(memory_contract(plan).device_choice.empty());
  EXPECT_EQ(memory_contract(plan).device_choice, plain_plan(options).device_choice);
}

// A host device whose processor has, or lacks, instructions for bf16.
class Processor final : public device::ForwardingDevice {
 public:
  explicit Processor(bool multiplies_bf16)
      : ForwardingDevice(device::open_device({"host", 1})), multiplies_bf16_(multiplies_bf16) {}
  bool multiplies_fast(DType dtype) const override {
    return dtype == DType::f32 || (dtype == DType::bf16 && multiplies_bf16_);
  }

 private:
  const bool multiplies_bf16_;
};

TEST_F(OfOneBlock, AFasterTypeOfProductsIsAdvised) {
  const auto advice = [&](const std::string& compute, bool multiplies_bf16) {
    Options options = plain_;
    options.precision.compute = compute;
    Devices devices;
    devices.push_back(std::make_unique<Processor>(multiplies_bf16));
    return memory_contract(plan_run(options, std::move(devices))).advice;
  };
  EXPECT_SAYS(advice("fp32", true), "precision.compute = \"bf16\" may be faster");
  EXPECT_EQ(advice("fp32", false), "");
  EXPECT_EQ(advice("bf16", true), "");
  EXPECT_SAYS(advice("bf16", false), "precision.compute = \"fp32\" may be faster");
  EXPECT_SAYS(advice("fp16", true), "precision.compute = \"fp32\" may be faster");
}

TEST_F(OfOneBlock, TheTypeOfProductsIsTheProcessors) {
  const auto choice = [&](const Options& options, bool multiplies_bf16) {
    Devices devices;
    devices.push_back(std::make_unique<Processor>(multiplies_bf16));
    const RunPlan plan = plan_run(options, std::move(devices));
    EXPECT_EQ(name_of(plan.model.compute), plan.options.precision.compute == "bf16" ? "bf16" : "f32");
    return std::pair(plan.options.precision.compute, memory_contract(plan).compute_choice);
  };
  const auto expect = [&](const Options& options, bool multiplies_bf16, const std::string& type, const char* why) {
    const auto [chosen, said] = choice(options, multiplies_bf16);
    EXPECT_EQ(chosen, type);
    EXPECT_SAYS(said, type + ", since " + why);
  };
  Options options = plain_;
  options.precision.compute = PrecisionOptions().compute;
  expect(options, true, "bf16", "this processor has instructions");
  expect(options, false, "fp32", "this processor has no instructions");
  options.precision.tf32 = true;
  expect(options, true, "fp32", "precision.tf32 is set");
  EXPECT_EQ(choice(plain_, true), std::pair(std::string("fp32"), std::string()));  // which is named
}

TEST_F(OfOneBlock, WorkIsTheSameForThoseThatDoTheSame) {
  const auto work = [&](const Options& options) { return predict_step(plan_run(options), calibration_, nullptr).work; };
  Options one = plain_;
  one.eps.stash_memory = 1 << 30;
  EXPECT_EQ(work(one), work(plain_));
  EXPECT_NE(work(other_), work(plain_));
  EXPECT_NE(work(options("none", "host")), work(other_));
}

}  // namespace
}  // namespace l2l::runtime

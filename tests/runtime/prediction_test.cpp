// On a device whose durations are known, a step takes what was predicted.
#include "runtime/tuning/prediction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "collectives/paced.h"
#include "collectives/threads.h"
#include "compiler/ir/graph.h"
#include "device/paced/paced_device.h"
#include "l2l/errors.h"
#include "runtime/engine.h"
#include "tests/runtime/prediction_fixture.h"
#include "tests/support/instrumented.h"
#include "tests/support/temporary_folder.h"
#include "tools/bench/h100_nodes.h"
#include "tools/bench/measured_run.h"

namespace l2l::runtime {
namespace {

using std::chrono::microseconds;
using testing::TemporaryFolder;

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

}  // namespace
}  // namespace l2l::runtime

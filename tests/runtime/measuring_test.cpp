// How much is measured, what is estimated, and what is kept of it.
#include "runtime/tuning/measuring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <thread>

#include "runtime/plan_run.h"
#include "runtime/step_meter.h"
#include "runtime/tuning/prediction.h"
#include "tests/support/temporary_folder.h"

namespace l2l::runtime {
namespace {

using testing::TemporaryFolder;

constexpr double kMoment = 1e-9;  // in which no measurement fits

Options options(const std::string& policy = "full") {
  Options options;
  options.precision.compute = "fp32";
  options.model = {.layers = 3, .hidden = 64, .heads = 4, .sequence = 16, .dropout = 0};
  options.batch = {.micro_batch = 2, .micro_batches = 2};
  options.recompute.policy = policy;
  options.device.kind = "host";
  options.device.threads = 1;
  options.eps.threads = 1;
  return options;
}

// $L2L_CALIBRATION is a file of this test.
class MeasuringTest : public ::testing::Test {
 protected:
  MeasuringTest() : before_(std::getenv("L2L_CALIBRATION") == nullptr ? "" : std::getenv("L2L_CALIBRATION")) {
    setenv("L2L_CALIBRATION", file_.c_str(), 1);
  }
  ~MeasuringTest() override { setenv("L2L_CALIBRATION", before_.c_str(), 1); }

  Measuring measuring(double seconds) {
    return {seconds, [this](const MeasuringProgress& progress) { shown_.push_back(progress); }};
  }
  StepPrediction predict(double seconds, const std::string& policy = "full") {
    shown_.clear();
    return Trainer(options(policy), measuring(seconds)).predict(/*measure=*/true);
  }
  std::string calibration() const {
    std::ifstream file(file_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "calibration.json";
  const std::string before_;
  std::vector<MeasuringProgress> shown_;
};

TEST(MeasuringSession, MeasuresForItsTimeAndSaysHowFarItIs) {
  std::vector<MeasuringProgress> shown;
  MeasuringSession session({.seconds = 1, .show = [&](const auto& progress) { shown.push_back(progress); }});
  EXPECT_TRUE(session.allows(measuring_time(0.9)));
  EXPECT_FALSE(session.allows(1.1));
  session.expect(2, 0.5);
  session.begin("one", 0.1);
  session.begin("two", 0.2);
  session.begin("three", 0.3);
  ASSERT_EQ(shown.size(), 3u);
  EXPECT_EQ(shown[0].what, "one");
  EXPECT_EQ((std::vector{shown[0].number, shown[1].number, shown[2].number}), (std::vector{1, 2, 3}));
  EXPECT_EQ((std::vector{shown[0].of, shown[1].of, shown[2].of}), (std::vector{2, 2, 3}));
  EXPECT_GE(shown[0].seconds_left, shown[1].seconds_left);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(session.allows(measuring_time(0.9)));
}

TEST(MeasuringSession, HasAllTheTimeOrNone) {
  MeasuringSession thorough({.seconds = Measuring::kThorough}), none({.seconds = 0});
  EXPECT_TRUE(thorough.thorough() && thorough.keeps() && thorough.allows(1e9));
  EXPECT_FALSE(none.thorough() || none.keeps() || none.allows(0));
}

TEST(PieceRates, FollowWhatWasMeasuredBySort) {
  PieceRates rates;
  EXPECT_EQ(rates.estimate(work_of(PieceSort::link, 2)).seconds, 2);
  rates.learn(work_of(PieceSort::link, 2), {6, 3});
  rates.learn(work_of(PieceSort::link, 4), {6, 3});
  EXPECT_EQ(rates.estimate(work_of(PieceSort::link, 1)).seconds, 2);
  EXPECT_EQ(rates.estimate(work_of(PieceSort::link, 1)).processor, 1);
  EXPECT_EQ(rates.estimate(work_of(PieceSort::memory, 1)).seconds, 1) << "another sort";
  // Of a piece that is half this and half that, twice as long as it was thought: both take twice as long.
  PieceWork both = work_of(PieceSort::memory, 1);
  both[static_cast<std::size_t>(PieceSort::arithmetic)] = 1;
  rates.learn(both, {4, 4});
  EXPECT_EQ(rates.estimate(work_of(PieceSort::memory, 1)).seconds, 2);
  EXPECT_EQ(rates.estimate(work_of(PieceSort::arithmetic, 1)).seconds, 2);
}

TEST(PieceRates, AProductTakesTwoOperationsAnElement) {
  compiler::GraphBuilder builder("product");
  using compiler::Region;
  const auto x = builder.bound(Region::input, "x", DType::f32, Shape{512, 256});
  const auto w = builder.bound(Region::weights, "w", DType::f32, Shape{256, 1024});
  const auto b = builder.bound(Region::weights, "b", DType::f32, Shape{1024}, 256 * 1024 * 4);
  builder.linear(x, w, b);
  const PieceWork work = work_of(builder.finish());
  EXPECT_NEAR(work[static_cast<std::size_t>(PieceSort::arithmetic)], 2.0 * 512 * 256 * 1024 / 1e11, 1e-5);
  EXPECT_EQ(work[static_cast<std::size_t>(PieceSort::memory)], 0);
}

TEST(PieceRates, ALossIsAProductOfRowsAndTable) {
  compiler::GraphBuilder builder("loss");
  using compiler::Region;
  const auto x = builder.bound(Region::input, "x", DType::f32, Shape{512, 256});
  const auto table = builder.bound(Region::weights, "table", DType::f32, Shape{5000, 256});
  const auto targets = builder.bound(Region::input, "targets", DType::i32, Shape{512}, 512 * 256 * 4);
  builder.linear_cross_entropy(x, table, targets);
  const PieceWork work = work_of(builder.finish());
  EXPECT_NEAR(work[static_cast<std::size_t>(PieceSort::arithmetic)], 2.0 * 512 * 256 * 5000 / 1e11, 1e-5);
}

TEST_F(MeasuringTest, WhatThereIsNoTimeForIsEstimatedAndStaysSo) {
  const StepPrediction first = predict(kMoment);
  EXPECT_TRUE(shown_.empty());
  EXPECT_EQ(first.measured, 0);
  EXPECT_GT(first.estimated, 5);
  ASSERT_TRUE(first.step_ms);
  const StepPrediction again = predict(3);
  EXPECT_EQ(again.step_ms, first.step_ms) << "the same calibration gives the same prediction";
  EXPECT_EQ(again.estimated, first.estimated);
  EXPECT_TRUE(shown_.empty());
  const StepPrediction thorough = predict(Measuring::kThorough);
  EXPECT_EQ(thorough.estimated, 0);
  EXPECT_GE(thorough.measured, first.estimated);
  EXPECT_EQ(predict(3).step_ms, thorough.step_ms) << "what was measured stands over what was estimated";
}

TEST_F(MeasuringTest, AFewSecondsMeasureASmallModelAndAreShown) {
  const StepPrediction prediction = predict(60);  // measures briefly however long it may take
  EXPECT_EQ(prediction.estimated, 0);
  EXPECT_EQ(prediction.measured, static_cast<int>(shown_.size()));
  EXPECT_EQ(shown_.back().number, shown_.back().of);
  EXPECT_LT(shown_.back().seconds_left, 2) << "a few steps of a tiny model";
  EXPECT_TRUE(
      std::is_sorted(shown_.begin(), shown_.end(), [](const auto& a, const auto& b) { return a.number < b.number; }));
  EXPECT_TRUE(
      std::any_of(shown_.begin(), shown_.end(), [](const auto& each) { return each.what == "program \"block\""; }));
  EXPECT_EQ(predict(3).measured, 0);
  EXPECT_GT(predict(Measuring::kThorough).measured, 0) << "brief figures are not thorough ones";
}

TEST_F(MeasuringTest, ATrainerMeasuresNothingUntilItIsTuned) {
  const StepPrediction guess = Trainer(options("auto")).predict(true);
  EXPECT_EQ(guess.measured, 0);
  EXPECT_GT(guess.estimated, 5);
  EXPECT_EQ(calibration(), "");
  tune(options("auto"), measuring(60));
  EXPECT_GT(shown_.size(), 0u);
  const StepPrediction known = Trainer(options("auto")).predict(true);
  EXPECT_EQ(known.measured, 0);
  EXPECT_EQ(known.estimated, 0);
}

// On a device that a run nearly fills, what is not chosen may not fit.
TEST_F(MeasuringTest, WhatDoesNotFitIsEstimated) {
  Options small = options("full");
  small.device.memory = Trainer(small).contract().device_bytes;
  small.recompute.policy = "auto";
  const StepPrediction roomy = Trainer(options("auto"), measuring(60)).predict(true);
  EXPECT_EQ(roomy.estimated, 0);
  std::filesystem::remove(file_);
  Trainer trainer(small, measuring(60));
  EXPECT_GT(trainer.predict(true).measured, 5);
  EXPECT_LE(trainer.device_peak_bytes(), small.device.memory);
}

TEST_F(MeasuringTest, WithoutTimeNothingIsKept) {
  EXPECT_GT(predict(0).estimated, 5);
  EXPECT_EQ(calibration(), "");
}

TEST_F(MeasuringTest, WhatIsInterruptedGoesOn) {
  struct Interrupted {};
  const auto show = [](const MeasuringProgress& progress) {
    std::this_thread::sleep_for(std::chrono::milliseconds(210));
    if (progress.number == 4) throw Interrupted();
  };
  EXPECT_THROW(Trainer(options(), {60, show}).predict(true), Interrupted);
  const StepPrediction prediction = predict(60);
  EXPECT_EQ(prediction.cached, 3);
  EXPECT_EQ(prediction.estimated, 0);
}

// A choice, too, follows from the calibration alone, whether or not there is time to measure.
TEST_F(MeasuringTest, TheSameFiguresGiveTheSameChoice) {
  const auto work = [&](double seconds) {
    shown_.clear();
    Trainer trainer(options("auto"), measuring(seconds));
    return std::pair(trainer.predict(false).work, trainer.contract().recomputation);
  };
  const auto estimated = work(kMoment);
  EXPECT_NE(estimated.second.back().find("estimated figures"), std::string::npos) << estimated.second.back();
  EXPECT_EQ(work(3), estimated);
  EXPECT_TRUE(shown_.empty());
  const auto thorough = work(Measuring::kThorough);
  EXPECT_FALSE(shown_.empty());
  EXPECT_EQ(thorough.second.back().find("estimated figures"), std::string::npos) << thorough.second.back();
  EXPECT_EQ(estimated.second.back().find("may choose otherwise"), std::string::npos) << "these estimates are kept";
  for (const double seconds : {0.0, kMoment, 3.0, Measuring::kThorough}) {
    EXPECT_EQ(work(seconds), thorough) << seconds;
    EXPECT_TRUE(shown_.empty()) << seconds;
  }
}

// What the host device does takes time of this process's threads, which is measured beside the time that passes.
TEST(StepCosts, HaveTheTimeOfTheThreadsThatCompute) {
  const RunParts parts = make_parts(resolve(options()));
  Calibration calibration({}, "");
  MeasuringSession session({.seconds = Measuring::kThorough});
  StepCosts costs(parts, calibration, &session);
  const Cost zeros = costs.zero(Bytes{1} << 24);
  EXPECT_TRUE(computes_here(zeros)) << zeros.processor << " s of " << zeros.seconds;
}

TEST(MemoryShare, IsOfTheMostThatMemoryWasSeenToCarry) {
  MemoryShare unknown, share(20.0);
  EXPECT_FALSE(unknown.of(10));
  EXPECT_EQ(share.of(10), 0.5);
  EXPECT_EQ(share.of(40), 1) << "was measured while others used it";
  EXPECT_EQ(share.of(10), 0.25);
}

}  // namespace
}  // namespace l2l::runtime

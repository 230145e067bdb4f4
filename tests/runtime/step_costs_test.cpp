// What is kept of measured steps, and what is chosen by it.
#include "runtime/tuning/step_costs.h"

#include <gtest/gtest.h>

#include "device/forwarding_device.h"
#include "device/open.h"
#include "l2l/errors.h"
#include "runtime/plan/fixed_decisions.h"
#include "runtime/plan/memory_contract.h"
#include "runtime/tuning/shallow_run.h"
#include "tests/runtime/prediction_fixture.h"
#include "tests/runtime/test_data.h"
#include "tests/support/temporary_folder.h"

namespace l2l::runtime {
namespace {

using testing::TemporaryFolder;

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

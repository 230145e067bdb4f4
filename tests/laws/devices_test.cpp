// Several devices with one parameter server. Each runs its share of the minibatch with the random numbers and data that
// these microbatches have on a single device, so the first loss is the same to the bit. Gradients then differ by the
// order of sums alone (and, below fp32, by one rounding per device). For a given number of devices, results are the
// same to the bit, whatever the devices' speed.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/fault_point.h"
#include "tests/laws/measured_memory.h"
#include "tests/laws/outcome.h"
#include "tests/laws/small_run.h"
#include "tests/support/instrumented.h"

namespace l2l::devices_law {
namespace {

using testing::FaultPlan;
using testing::Record;
using testing::SmallRun;
using namespace std::chrono_literals;

constexpr int kSteps = 8;
constexpr std::int64_t kMicrobatches = 24;  // divisible by every number of devices below
constexpr std::int64_t kCounts[] = {1, 2, 3, 8};

// Instrumented builds, which are ten times slower, take fewer repeats of the same.
using testing::kInstrumented;

// The stated bounds, relative: of the first step's gradient norm, and of the losses of kSteps steps.
struct Bounds {
  double norm, loss;
};
constexpr Bounds kFp32{1e-7, 1e-7}, kBf16{4e-3, 1e-4};  // of gradients on the link; 2^-8 = 4e-3

Options options_of(const SmallRun& run, std::int64_t devices, const std::string& family = "gpt2") {
  Options options = run.options(family);
  options.batch = {.micro_batch = 1, .micro_batches = kMicrobatches};
  options.device.count = devices;
  options.device.threads = 1;
  options.eps.threads = 2;
  return options;
}

Record record(const Options& options) { return testing::record_of(options, kSteps); }

double relative(double a, double b) { return std::abs(a / b - 1); }

// Of the first norm, and the largest of the losses, over their bounds.
double excess(const Record& record, const Record& one, const Bounds& bounds) {
  double largest = relative(record.norms[0], one.norms[0]) / bounds.norm;
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    largest = std::max(largest, relative(record.losses[i], one.losses[i]) / bounds.loss);
  }
  return largest;
}

class DeviceFamilies : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, DeviceFamilies, ::testing::Values("gpt2", "bert", "llama_tied"));

TEST_P(DeviceFamilies, SeveralDevicesTrainLikeOne) {
  const SmallRun run;
  const Record one = record(options_of(run, 1, GetParam()));
  for (const std::int64_t count : {2, 3, 8}) {
    const Record several = record(options_of(run, count, GetParam()));
    EXPECT_EQ(several.losses[0], one.losses[0]) << count;
    EXPECT_LE(excess(several, one, kFp32), 1) << count;
  }
  EXPECT_LT(one.losses.back(), one.losses.front());
}

// Gradients of parts of the minibatch are summed as one binary tree, wherever its parts are.
TEST_P(DeviceFamilies, WithPartsAnyNumberOfDevicesGivesTheSameBits) {
  const SmallRun run;
  for (const char* const clip : {"none", "global"}) {
    const auto parts = [&](std::int64_t parts, std::int64_t devices) {
      Options options = options_of(run, devices, GetParam());
      options.optimizer.clip = clip;
      options.batch.parts = parts;
      return options;
    };
    const Record one = record(parts(8, 1));
    for (const std::int64_t count : {2, 4, 8}) EXPECT_EQ(record(parts(8, count)), one) << count << ", " << clip;
    EXPECT_NE(record(parts(4, 1)), one) << "the order of a sum is seen";
    if (std::string(clip) == "none") {  // norms are summed otherwise
      EXPECT_EQ(record(parts(1, 1)).hash, record(parts(0, 1)).hash);
    }
  }
}

TEST(Devices, EachHasAsManyAccumulatorsAsATreeOfItsPartsNeeds) {
  const SmallRun run;
  const auto accumulators = [&](std::int64_t devices) {
    Options options = options_of(run, devices);
    options.batch.parts = 8;
    const MemoryContract contract = Trainer(options).contract();
    for (const ContractLine& line : contract.device) {
      if (line.what.starts_with("gradient accumulators")) return line.what.substr(0, line.what.find(" x "));
    }
    return std::string();
  };
  EXPECT_EQ(accumulators(1), "gradient accumulators (fp32) (4");
  EXPECT_EQ(accumulators(2), "gradient accumulators (fp32) (3");
  EXPECT_EQ(accumulators(4), "gradient accumulators (fp32) (2");
  EXPECT_EQ(accumulators(8), "gradient accumulators (fp32)");
}

TEST(Devices, TrainLikeOneInEveryPrecision) {
  const SmallRun run;
  const auto options = [&](const char* compute, const char* gradients, std::int64_t count) {
    Options options = options_of(run, count);
    options.precision = {.compute = compute, .gradients = gradients};
    return options;
  };
  for (const char* const gradients : {"fp32", "bf16"}) {
    const Record one = record(options("bf16", gradients, 1));
    const Record several = record(options("bf16", gradients, 3));
    EXPECT_EQ(several.losses[0], one.losses[0]) << gradients;
    EXPECT_LE(excess(several, one, {gradients == std::string("fp32") ? kFp32.norm : kBf16.norm, kBf16.loss}), 1)
        << gradients;
  }
  // A loss scale that overflows at first: the step is skipped as a whole, for all devices.
  const Record one = record(options("fp16", "auto", 1)), several = record(options("fp16", "auto", 3));
  EXPECT_EQ(several.scales, one.scales);
  EXPECT_EQ(several.losses[0], one.losses[0]);
}

// Delays of devices, links and launches, drawn anew for each run and device.
testing::DeviceWrapper delayed(std::uint64_t seed) {
  auto next = std::make_shared<std::uint64_t>(100 * seed);
  return [next](std::unique_ptr<device::HostDevice> device) {
    FaultPlan faults;
    faults.seed = ++*next;
    faults.copy_h2d_delay = faults.copy_d2h_delay = faults.launch_delay = std::chrono::microseconds(*next % 3 * 60);
    return std::make_unique<testing::FaultDevice>(std::move(device), faults);
  };
}

TEST(Devices, SameBitsInAnyOrderOfArrival) {
  const SmallRun run;
  for (const std::int64_t count : kCounts) {
    for (const char* const clip : {"none", "global"}) {
      Options options = options_of(run, count);
      options.optimizer.clip = clip;
      const Record first = testing::record_on(options, 5, testing::honest);
      for (std::uint64_t seed = 1; seed <= (kInstrumented ? 1 : 3); ++seed) {
        options.device.threads = options.eps.threads = static_cast<std::int64_t>(1 + seed % 2);
        EXPECT_EQ(testing::record_on(options, 5, delayed(seed)), first) << count << " devices, clip " << clip;
      }
    }
  }
}

TEST(Devices, SameBitsHoweverTheRunIsExecuted) {
  const SmallRun run;
  const Record first = record(options_of(run, 3));
  for (const char* const execution : {"relay", "resident"}) {
    for (const char* const update : {"eager", "after_backward"}) {
      for (const char* const stash : {"host", "device"}) {
        Options options = options_of(run, 3);
        options.device.execution = execution;
        options.optimizer.update = update;
        options.transfer = {.stash = stash, .prefetch = 2};
        EXPECT_EQ(record(options), first) << execution << ", " << update << ", stash " << stash;
      }
    }
  }
  Options chunks = options_of(run, 3);
  chunks.transfer.vocabulary_chunk = 72;
  const Record relay = record(chunks);
  chunks.device.execution = "resident";
  EXPECT_EQ(record(chunks), relay);
}

TEST(Devices, ValidateAndGenerateAsOne) {
  const SmallRun run;
  std::vector<testing::Outcome> outcomes;
  const std::vector<std::int32_t> prompt = {97, 98, 99};
  for (const std::int64_t count : kCounts) {
    Trainer trainer(options_of(run, count));
    outcomes.push_back({{}, *trainer.validation_loss(), trainer.generate(prompt, {.tokens = 5})});
    trainer.step();
    EXPECT_GT(*trainer.validation_loss(), 0);  // and training goes on between the two
    EXPECT_EQ(outcomes.back(), outcomes.front()) << count;
  }
}

// Each device fetches all weights and sends all gradients; microbatches and their stash are divided among the devices.
TEST(Devices, EachLinkCarriesWhatOneDeviceWould) {
  using transfer::Traffic;
  const SmallRun run;
  const auto count_on = [&](std::int64_t devices, std::int64_t microbatches) {
    Options options = options_of(run, devices);
    options.batch.micro_batches = microbatches;
    options.transfer.stash = "host";
    Trainer trainer(options);
    trainer.step();
    return trainer.link_counters();
  };
  const LinkCounters one = count_on(1, 4), three = count_on(3, 12);
  EXPECT_EQ(three.weights_h2d, 3 * one.weights_h2d);
  EXPECT_EQ(three.gradients_d2h, 3 * one.gradients_d2h);
  EXPECT_EQ(three.stash_h2d, 3 * one.stash_h2d);
  EXPECT_EQ(three.stash_d2h, 3 * one.stash_d2h);
  EXPECT_EQ(three.batch_h2d, 3 * one.batch_h2d);
  EXPECT_EQ(three.results_d2h, 3 * one.results_d2h);

  Options options = options_of(run, 3);
  runtime::RunPlan plan = runtime::plan_run(options);
  runtime::Engine engine(plan, nullptr);
  for (int u = 0; u < kMicrobatches; ++u) {
    std::fill(engine.minibatch().tokens(u).begin(), engine.minibatch().tokens(u).end(), 1);
    std::fill(engine.minibatch().targets(u).begin(), engine.minibatch().targets(u).end(), 2);
  }
  engine.train(0, 1e-3);
  engine.store().complete_updates();
  for (int device = 0; device < 3; ++device) {
    EXPECT_EQ(engine.link(device).h2d(Traffic::weights), one.weights_h2d) << device;
    EXPECT_EQ(engine.link(device).d2h(Traffic::gradients), one.gradients_d2h) << device;
    EXPECT_EQ(3 * engine.link(device).h2d(Traffic::batch), engine.link_counters().batch_h2d) << device;
  }
}

// Law 1 on each device, law 3 over all of them.
TEST(Devices, EachHasTheMemoryThatTheContractStates) {
  const SmallRun run;
  std::set<std::uint64_t> peaks;
  for (const std::int64_t layers : {2, 24, 96}) {
    if (kInstrumented && layers > 24) continue;
    for (const char* const clip : {"none", "global"}) {
      Options options = options_of(run, 3);
      options.model.layers = layers;
      options.transfer.stash = "host";
      options.optimizer.clip = clip;
      const auto [measured, pinned] = testing::measured_memory(options, 2);
      const MemoryContract contract = Trainer(options).contract();
      EXPECT_EQ(contract.devices, 3);
      EXPECT_EQ(measured, std::vector<std::uint64_t>(3, contract.device_bytes));
      EXPECT_EQ(pinned, contract.pinned_bytes);
      std::uint64_t sum = 0;
      for (const ContractLine& line : contract.host) {
        sum += line.bytes;
        if (line.what.find("arenas") != std::string::npos) {
          EXPECT_EQ(line.bytes, 3 * contract.device_bytes);
        }
      }
      EXPECT_EQ(sum, contract.host_bytes);
      peaks.insert(measured.begin(), measured.end());
    }
  }
  EXPECT_EQ(peaks.size(), 1u);
}

TEST(Devices, AContractSaysHowUpdatesRunAndAtWhatPrice) {
  const SmallRun run;
  const auto mode = [&](const char* clip, const char* update, const char* compute) {
    Options options = options_of(run, 2);
    options.optimizer.clip = clip;
    options.optimizer.update = update;
    options.precision.compute = compute;
    const MemoryContract contract = Trainer(options).contract();
    std::uint64_t held = 0;
    for (const ContractLine& line : contract.host) {
      if (line.what == "held gradients") held = line.bytes;
    }
    const bool says_held = contract.update_mode.starts_with("held until the step's verdict");
    EXPECT_EQ(held > 0, says_held) << contract.update_mode;
    EXPECT_EQ(contract.update_mode.find(format_bytes(held)) != std::string::npos, says_held) << contract.update_mode;
    return contract.update_mode;
  };
  EXPECT_TRUE(mode("none", "eager", "fp32").starts_with("eager"));
  EXPECT_TRUE(mode("per_layer", "eager", "bf16").starts_with("eager"));
  EXPECT_NE(mode("global", "eager", "fp32").find("global clipping"), std::string::npos);
  EXPECT_NE(mode("none", "after_backward", "fp32").find("after_backward"), std::string::npos);
  EXPECT_NE(mode("none", "eager", "fp16").find("loss scaling"), std::string::npos);
}

// A checkpoint knows nothing of devices. With as many of them a resumed run equals the uninterrupted one; with another
// number its next loss does, and then the bounds above hold.
TEST(Devices, ARunResumesOnAnotherNumberOfThem) {
  const SmallRun run;
  Trainer whole(options_of(run, 2));
  for (int step = 0; step < 3; ++step) whole.step();
  whole.save();
  std::vector<double> losses;
  for (int step = 3; step < kSteps; ++step) losses.push_back(whole.step().loss);
  for (const std::int64_t count : kCounts) {
    Trainer resumed(options_of(run, count));
    resumed.resume(run.options().checkpoint.directory);
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const double loss = resumed.step().loss;
      if (i == 0 || count == 2) {
        EXPECT_EQ(loss, losses[i]) << count << " devices, step " << i;
      }
      EXPECT_LE(relative(loss, losses[i]), kFp32.loss) << count << " devices, step " << i;
    }
    EXPECT_EQ(resumed.weights_hash() == whole.weights_hash(), count == 2) << count;
  }
}

// Of the second device alone: the step ends with its error, and nobody waits for gradients that will not come.
TEST(Devices, AFailureOfOneEndsTheRunOfAll) {
  const SmallRun run;
  for (const char* const update : {"eager", "after_backward"}) {
    for (std::int64_t call = 0; call < 120; call += kInstrumented ? 52 : 13) {
      for (const bool launch : {false, true}) {
        Options options = options_of(run, 3);
        options.optimizer.update = update;
        options.transfer.stash = "host";
        int opened = 0;
        const auto second_fails = [&](std::unique_ptr<device::HostDevice> device) {
          FaultPlan faults;
          if (opened++ == 1) (launch ? faults.fail_launch : faults.fail_copy) = call;
          return std::make_unique<testing::FaultDevice>(std::move(device), faults);
        };
        EXPECT_THROW(testing::record_on(options, 3, second_fails), DeviceError) << update << ", call " << call;
      }
    }
  }
}

TEST(Devices, APlanIsHeldToTheirNumber) {
  const SmallRun run;
  EXPECT_THROW(runtime::plan_run(options_of(run, 2), {std::make_shared<device::HostDevice>(1, Bytes{0})}), Error);
  Options options = options_of(run, 8);
  options.batch.micro_batches = 12;
  EXPECT_THROW(Trainer{options}, BadInput);
}

// Negative controls: what breaks the sum or the update exceeds the bounds, and changes the bits.
#ifdef L2L_FAULT_POINTS
TEST(DevicesNegativeControl, LostAndDoubleWorkIsCaught) {
  const SmallRun run;
  const Record one = record(options_of(run, 1)), three = record(options_of(run, 3));
  EXPECT_LE(excess(three, one, kFp32), 1);
  for (const char* const fault : {"eps.lost_contribution", "eps.lost_update", "eps.double_update"}) {
    arm_fault_point(fault);
    const Record broken = record(options_of(run, 3));
    arm_fault_point("");
    EXPECT_NE(broken, three) << fault;
    EXPECT_GT(excess(broken, one, kFp32), 1) << fault;
  }
}
#endif

TEST(DevicesNegativeControl, AMicrobatchThatADeviceLeavesOutIsCaught) {
  const SmallRun run;
  const Options options = options_of(run, 3);
  const auto record = [&](bool drop) {
    int opened = 0;
    return testing::record_on(options, kSteps, [&](std::unique_ptr<device::HostDevice> device) {
      FaultPlan faults;
      if (drop && opened++ == 1) {
        faults.drop_program = "block backward";
        faults.drop_microbatch = kMicrobatches / 3 + 2;
      }
      return std::make_unique<testing::FaultDevice>(std::move(device), faults);
    });
  };
  const Record honest = record(false);
  EXPECT_GT(excess(record(true), honest, kFp32), 1);
}

}  // namespace
}  // namespace l2l::devices_law

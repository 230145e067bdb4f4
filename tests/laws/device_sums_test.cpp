// Where the gradients of several devices are summed changes no bit: on the host, which has all of them, or on the
// devices, each of which sums a slice. What crosses the links, and the memory it takes, are those of the plan.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "core/fault_point.h"
#include "runtime/plan/step_work.h"
#include "tests/laws/measured_memory.h"
#include "tests/laws/several_devices.h"
#include "tests/support/instrumented.h"

namespace l2l::device_sums_law {
namespace {

using testing::FaultPlan;
using testing::Record;
using testing::SmallRun;
using transfer::Traffic;

constexpr int kSteps = 3;

Options options_of(const SmallRun& run, std::int64_t devices, const std::string& sums,
                   const std::string& family = "gpt2") {
  Options options = testing::options_of_devices(run, devices, family);
  options.device.sums = sums;
  return options;
}

Record record(const Options& options) {
  Trainer trainer(options);
  Record record = testing::record_of(trainer, kSteps);
  EXPECT_EQ(trainer.link_counters().gradients_exchanged > 0, options.device.sums == "devices");
  return record;
}

class DeviceSumsFamilies : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, DeviceSumsFamilies, ::testing::Values("gpt2", "bert", "llama", "llama_tied"));

TEST_P(DeviceSumsFamilies, SumsOfTheDevicesHaveTheBitsOfTheHosts) {
  const SmallRun run;
  for (const char* const compute : {"fp32", "bf16", "fp16"}) {
    for (const std::int64_t count : {2, 3, 4, 6}) {
      Options host = options_of(run, count, "host", GetParam()), devices = host;
      host.precision.compute = devices.precision.compute = compute;
      devices.device.sums = "devices";
      EXPECT_EQ(record(devices), record(host)) << count << " devices, " << compute;
    }
  }
}

TEST(DeviceSums, HaveTheSameBitsInEveryMode) {
  const SmallRun run;
  testing::Ways ways = {
      {"fp32 gradients", [](Options& o) { o.precision.gradients = "fp32", o.precision.compute = "bf16"; }},
      {"gathered weights", [](Options& o) { o.device.feed = "gathered"; }},
      {"parts", [](Options& o) { o.batch.parts = 4; }},
      {"one buffer", [](Options& o) { o.eps.gradient_buffers = 1; }},
  };
  ways.insert(ways.end(), testing::kModes.begin(), testing::kModes.end());
  for (const auto& [name, change] : ways) {
    Options host = options_of(run, 4, "host");
    change(host);
    Options devices = host;
    devices.device.sums = "devices";
    EXPECT_EQ(record(devices), record(host)) << name;
  }
}

TEST(DeviceSums, SameBitsHoweverLateADeviceIs) {
  const SmallRun run;
  const Options options = options_of(run, 3, "devices");
  const Record first = testing::record_on(options, kSteps, testing::honest);
  for (std::uint64_t seed = 1; seed <= (testing::kInstrumented ? 1 : 4); ++seed) {
    EXPECT_EQ(testing::record_with_a_late_device(options, kSteps, seed), first) << seed;
  }
}

// Of a layer's gradients on K devices, a slice is a K-th, rounded up to 256 bytes; the last ones have what is left.
struct Slice {
  Bytes brought, received;
};
Slice slice_of(Bytes elements, Bytes size, Bytes devices, Bytes device) {
  const Bytes unit = 256 / size, each = ((elements + devices - 1) / devices + unit - 1) / unit * unit;
  const Bytes begin = std::min(elements, device * each), end = std::min(elements, (device + 1) * each);
  return {4 * (end - begin), (devices - 1) * each * size};
}

TEST(DeviceSums, ALinkCarriesItsSlicesAndTheDevicesEachOthers) {
  const SmallRun run;
  for (const auto& [compute, size] : {std::pair{"fp32", Bytes{4}}, std::pair{"bf16", Bytes{2}}}) {
    for (const int count : {2, 3}) {
      Options options = options_of(run, count, "devices");
      options.precision.compute = compute;
      const runtime::RunPlan plan = runtime::plan_run(options);
      runtime::Engine engine(plan, nullptr);
      engine.minibatch().draw(plan.model);
      engine.train(0, 1e-3);
      engine.store().complete_updates();
      Bytes all = 0, gradients = 0;
      for (int device = 0; device < count; ++device) {
        Bytes brought = 0, received = 0;
        for (int layer = 0; layer < plan.model.layers(); ++layer) {
          const auto elements = static_cast<Bytes>(plan.model.layout.gradient_elements(layer));
          const Slice slice = slice_of(elements, size, static_cast<Bytes>(count), static_cast<Bytes>(device));
          brought += slice.brought;
          received += slice.received;
          if (device == 0) gradients += 4 * elements;
        }
        EXPECT_EQ(engine.link(device).d2h(Traffic::gradients), brought) << device << " of " << count;
        EXPECT_EQ(engine.link(device).exchanged(), received) << device << " of " << count;
        all += brought;
      }
      EXPECT_EQ(all, gradients);
      EXPECT_EQ(engine.link_counters().gradients_d2h, gradients);
      Bytes work_brought = 0, work_received = 0;
      for (const runtime::VisitWork& visit : runtime::step_work(plan)) {
        work_brought += visit.gradients.total();
        work_received += visit.exchanged.total();
      }
      EXPECT_EQ(work_brought, engine.link(0).d2h(Traffic::gradients));
      EXPECT_EQ(work_received, engine.link(0).exchanged());
      EXPECT_EQ(engine.store().work().bytes, eps::ParameterStore::bytes_moved(plan.model.layout, plan.store));
    }
  }
}

TEST(DeviceSums, AReportHasWhatWasExchanged) {
  const SmallRun run;
  Trainer devices(options_of(run, 3, "devices")), host(options_of(run, 3, "host"));
  const StepReport report = devices.step(), plain = host.step();
  EXPECT_EQ(report.exchanged_bytes, devices.link_counters().gradients_exchanged);
  EXPECT_NE(to_json(report).find("\"exchanged_bytes\":"), std::string::npos);
  EXPECT_EQ(to_json(plain).find("exchanged_bytes"), std::string::npos);
  EXPECT_LT(report.d2h_bytes, plain.d2h_bytes);
}

// Laws 1 and 3.
TEST(DeviceSums, EachDeviceHasTheMemoryThatTheContractStates) {
  const SmallRun run;
  for (const char* const compute : {"fp32", "bf16"}) {
    std::set<std::uint64_t> peaks;
    for (const std::int64_t layers : {2, 24}) {
      Options options = options_of(run, 3, "devices");
      options.precision.compute = compute;
      options.model.layers = layers;
      options.transfer.stash = "host";
      const auto [measured, pinned] = testing::measured_memory(options, 2);
      const MemoryContract contract = Trainer(options).contract();
      EXPECT_EQ(measured, std::vector<std::uint64_t>(3, contract.device_bytes));
      EXPECT_EQ(pinned, contract.pinned_bytes);
      peaks.insert(measured.begin(), measured.end());
    }
    EXPECT_EQ(peaks.size(), 1u);
  }
}

TEST(DeviceSums, APlanSaysWhereAndWhy) {
  const SmallRun run;
  const auto says = [&](std::int64_t devices, const char* sums) {
    return Trainer(options_of(run, devices, sums)).contract().gradient_sums;
  };
  EXPECT_EQ(says(1, "devices"), "");
  EXPECT_EQ(says(2, "auto"), "the host sums those of all devices, since all are in the host's memory");
  EXPECT_EQ(says(2, "host"), "the host sums those of all devices");
  EXPECT_EQ(says(3, "devices"), "each device sums 1/3 of a layer's, exchanged by copies from device to device");
  EXPECT_THROW(says(2, "nobody"), BadInput);
}

// Law 8, at moments of each device that are drawn: the others, which wait for its slices, end with its error.
TEST(DeviceSums, AFailureOfOneDeviceEndsTheExchangesOfAll) {
  const SmallRun run;
  std::minstd_rand random(5);
  for (int attempt = 0; attempt < (testing::kInstrumented ? 12 : 60); ++attempt) {
    Options options = options_of(run, 3, "devices");
    options.device.feed = attempt % 3 == 0 ? "gathered" : "whole";
    options.eps.gradient_buffers = attempt % 4;
    options.device.execution = attempt % 5 == 0 ? "resident" : "relay";
    SCOPED_TRACE("attempt " + std::to_string(attempt));
    testing::expect_that_a_failure_ends_all(options, random);
  }
}

#ifdef L2L_FAULT_POINTS
TEST(DeviceSumsNegativeControl, ASliceThatIsLostIsNoticed) {
  const SmallRun run;
  for (const char* const compute : {"fp32", "bf16"}) {
    Options options = options_of(run, 3, "devices");
    options.precision.compute = compute;
    const Record honest = record(options);
    arm_fault_point("eps.lost_contribution");
    const Record broken = record(options);
    arm_fault_point("");
    EXPECT_NE(broken, honest) << compute;
  }
}

TEST(DeviceSumsNegativeControl, AnExchangeThatDoesNotWaitForItsPeersIsNoticed) {
  const SmallRun run;
  FaultPlan slow;
  slow.launch_delay = std::chrono::microseconds(300);
  testing::expect_that_reading_early_is_noticed(options_of(run, 3, "devices"), kSteps, slow);
}
#endif

}  // namespace
}  // namespace l2l::device_sums_law

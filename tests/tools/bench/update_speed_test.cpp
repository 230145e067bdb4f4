// What the benchmark of updates runs on: that it measures the streams it says, on numbers that stay numbers.
#include "tools/bench/update_speed.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "l2l/errors.h"
#include "tools/bench/store_speed.h"
#include "tools/bench/update_arrays.h"
#include "tools/bench/update_jobs.h"

namespace l2l::tools {
namespace {

constexpr std::int64_t kElements = 5 * 512 + 100;
constexpr int kContributions = 3;

class Bench : public ::testing::Test {
 protected:
  optimizers::Streams streams(const UpdateJob& job) {
    return arrays_.run(0, static_cast<std::size_t>(kElements), job.wire, job.moments, job.contributions, gradients_);
  }
  // Master and moments as fp32, one after the other.
  std::vector<float> state(const UpdateJob& job) {
    const optimizers::Streams all = streams(job);
    const auto count = static_cast<std::size_t>(kElements);
    std::vector<float> values(3 * count);
    kernels_.load_master[static_cast<std::size_t>(job.master())](all, values.data());
    kernels_.decode[0][static_cast<std::size_t>(job.moments.first)](all.first, count, values.data() + count);
    kernels_.decode[1][static_cast<std::size_t>(job.moments.second)](all.second, count, values.data() + 2 * count);
    return values;
  }

  Workers workers_{"test", 2};
  BenchMemory memory_{UpdateArrays::bytes(kElements, kContributions), false};
  UpdateArrays arrays_{kElements, kContributions, memory_, workers_};
  UpdateArrays::Gradients gradients_{};
  const optimizers::Kernels& kernels_ = optimizers::kernels();
};

TEST_F(Bench, ABaselineThatRanTwiceLeavesTheStateAsItWas) {
  for (const UpdateJob& job : all_update_jobs({1, 2, 3})) {
    const std::vector<float> before = state(job);
    const UpdateRun baseline = baseline_of(kernels_, job);
    baseline(streams(job));
    EXPECT_NE(std::memcmp(before.data(), state(job).data(), before.size() * sizeof(float)), 0) << job.name();
    baseline(streams(job));
    EXPECT_EQ(std::memcmp(before.data(), state(job).data(), before.size() * sizeof(float)), 0) << job.name();
  }
}

// At every length of a row's tail, and with several blocks.
TEST_F(Bench, BaselinesOfEveryInstructionSetGiveTheSameBits) {
  for (const UpdateJob& job : all_update_jobs({1, 2, 3})) {
    optimizers::Streams run = streams(job);
    for (std::size_t count = 1; count <= 71; ++count) {
      run.count = count == 71 ? static_cast<std::size_t>(kElements) : count;
      std::vector<float> expected;
      for (const optimizers::Kernels* const set : optimizers::supported_kernels()) {
        const UpdateRun baseline = baseline_of(*set, job);
        baseline(run);
        const std::vector<float> after = state(job);
        baseline(run);
        if (expected.empty()) expected = after;
        ASSERT_EQ(std::memcmp(expected.data(), after.data(), after.size() * sizeof(float)), 0)
            << job.name() << " " << set->name << ", " << run.count << " elements";
      }
    }
  }
}

TEST_F(Bench, UpdatesKeepNormalNumbersAndMoveEveryWeight) {
  for (const UpdateJob& job : all_update_jobs({1, 2, 3})) {
    const std::vector<float> before = state(job);
    for (int i = 0; i < 50; ++i) update_of(kernels_, job)(streams(job));
    const std::vector<float> after = state(job);
    for (std::size_t i = 0; i < after.size(); ++i) {
      ASSERT_TRUE(after[i] == 0 || std::isnormal(after[i])) << job.name() << " " << i << ": " << after[i];
      ASSERT_LT(std::abs(after[i] - before[i]), 0.02f) << job.name() << " " << i;
    }
    EXPECT_NE(std::memcmp(before.data(), after.data(), kElements * sizeof(float)), 0) << job.name();
  }
}

// The table of measured traffic that the parameter server's design rests on, and K gradients of two bytes.
TEST(UpdateJobs, CountTheBytesThatAnUpdateMoves) {
  std::map<std::string, double> bytes;
  for (const UpdateJob& job : all_update_jobs({1, 2, 4, 8})) {
    bytes[job.name() + " " + std::to_string(job.contributions)] = job.bytes();
  }
  const std::map<std::string, double> expected = {
      {"adamw bf16 fp32 1", 26},    {"adamw bf16 bf16_first 1", 22}, {"adamw bf16 bf16 1", 18},
      {"adamw bf16 int8 1", 14.25}, {"lamb bf16 fp32 1", 26},        {"lamb bf16 bf16_first 1", 22},
      {"lamb bf16 bf16 1", 18},     {"lamb bf16 int8 1", 14.25},     {"sgd bf16 fp32 1", 18},
      {"sgd bf16 bf16 1", 14},      {"sgd bf16 int8 1", 12.125},     {"adamw bf16 fp32 2", 28},
      {"adamw bf16 bf16 2", 20},    {"adamw bf16 fp32 4", 32},       {"adamw bf16 bf16 4", 24},
      {"adamw bf16 fp32 8", 40},    {"adamw bf16 bf16 8", 32},       {"adamw fp16 fp32 1", 28},
      {"adamw fp16 bf16 1", 20},    {"adamw fp32 fp32 1", 28},       {"adamw fp32 bf16 1", 20}};
  EXPECT_EQ(bytes, expected);
}

TEST(BenchMemory, GivesDisjointPiecesAndRefusesMoreThanItHas) {
  BenchMemory memory(3 * BenchMemory::kSlack, false);
  std::byte* const first = memory.allocate(1000, "one");
  std::byte* const second = memory.allocate(1000, "two");
  std::memset(first, 1, 1000);
  std::memset(second, 2, 1000);
  EXPECT_EQ(first[999], std::byte{1});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second) % 64, 0u);
  EXPECT_NE((second - first) % 4096, 0);
  try {
    memory.allocate(4 * BenchMemory::kSlack, "three");
    FAIL();
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("three"), std::string::npos);
  }
}

TEST(StoreBench, AStepUpdatesEveryLayer) {
  eps::StoreOptions options;
  options.wire = options.gradients = DType::bf16;
  options.optimizer = optimizers::AdamWSettings{};
  options.threads = 2;
  constexpr std::int64_t kParameters = 10 * 4096, kLayer = 4096;
  BenchMemory memory(StoreBench::bytes(kParameters, kLayer, options) + 100 * BenchMemory::kSlack, false);
  StoreBench bench(kParameters, kLayer, options, memory);
  EXPECT_EQ(bench.parameters(), kParameters);
  const std::uint64_t before = bench.state_hash();
  EXPECT_GT(bench.step(), 0);
  const std::uint64_t after = bench.state_hash();
  EXPECT_NE(before, after);
  bench.step();
  EXPECT_NE(bench.state_hash(), after);
  EXPECT_EQ(bench.updates(), 2u * 10);
}

TEST(MeasureUpdates, RefusesWhatItCannotMeasure) {
  UpdateSpeedSettings settings;
  settings.only = "abacus";
  EXPECT_THROW(measure_updates(settings), BadInput);
  settings.only = "";
  settings.parameters = std::int64_t{1} << 36;
  EXPECT_THROW(measure_updates(settings), OutOfMemory);
}

}  // namespace
}  // namespace l2l::tools

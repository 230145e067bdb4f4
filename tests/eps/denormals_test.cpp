// What an update of denormal gradients and moments costs beside one of normal numbers. On its own, since it measures.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "core/denormals.h"
#include "core/trace.h"
#include "tests/eps/fault_points.h"
#include "tests/eps/toy.h"

namespace l2l::eps::testing {
namespace {

constexpr std::int64_t kElements = 1 << 20;
constexpr int kRounds = 25;

// With flush-to-zero the ratio is 1.00 to 1.05 on an idle machine, without it above 10. On a busy one it is noisier,
// hence the guard between.
constexpr double kGuard = 1.5;

ModelLayout one_group() {
  ModelLayout layout;
  layout.groups = {{"w", 0, {{.name = "w.weight", .shape = {kElements}}}, kElements}};
  layout.layers = {{"w", 0, {{0, 0}}, kElements}};
  return layout;
}

// Gradient, first and second moment of every element.
struct Values {
  float gradient, moment1, moment2;
};
constexpr Values kNormal = {1e-3f, 1e-4f, 1e-8f}, kDenormal = {1e-40f, 2e-41f, 3e-42f};

class Run {
 public:
  explicit Run(const Values& values)
      : values_(values), store_(one_group(), toy_options(), memory_, failure_, nullptr), row_(kElements) {}

  // Seconds from the push to the end of the update.
  double step() {
    write(StatePart::moment1, values_.moment1);
    write(StatePart::moment2, values_.moment2);
    store_.begin_step(step_, 1e-3);
    GradientBuffer buffer = store_.gradient_buffer(0, 0);
    std::ranges::fill(row_, values_.gradient);
    store_as(row_, DType::f32, buffer.data());
    const Clock::time_point begin = Clock::now();
    store_.push(0, 0, std::move(buffer));
    store_.finish_step();
    store_.complete_updates();
    ++step_;
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

 private:
  void write(StatePart part, float value) {
    std::ranges::fill(row_, value);
    store_.write(0, 0, part, 0, row_);
  }

  const Values values_;
  TestMemory memory_;
  Failure failure_;
  ParameterStore store_;
  std::vector<float> row_;
  std::uint64_t step_ = 0;
};

// Of the best of each; one beside the other in every round.
double cost_of_denormals() {
  Run normal(kNormal), denormal(kDenormal);
  double normal_best = normal.step(), denormal_best = denormal.step();
  for (int round = 0; round < kRounds; ++round) {
    normal_best = std::min(normal_best, normal.step());
    denormal_best = std::min(denormal_best, denormal.step());
  }
  return denormal_best / normal_best;
}

// A busy machine may slow one of the two stores for as long as it lives: what is slow by itself is slow five times.
TEST(Denormals, CostNothing) {
  double ratio = cost_of_denormals();
  for (int more = 0; more < 4 && ratio > kGuard; ++more) ratio = std::min(ratio, cost_of_denormals());
  std::printf("an update of denormal numbers takes %.3f times as long as one of normal numbers\n", ratio);
  EXPECT_LE(ratio, kGuard);
}

// Seconds of sums of numbers of this size, with denormals kept.
double seconds_of_sums(float start) {
  constexpr int kLanes = 1024, kRuns = 2000;
  const FloatControl::Word before = FloatControl::read();
  FloatControl::write(before & ~FloatControl::kFlush);
  std::vector<float> sums(kLanes, start);
  const auto begin = std::chrono::steady_clock::now();
  for (int run = 0; run < kRuns; ++run) {
    for (float& sum : sums) sum = sum * 0.5f + start;
    asm volatile("" : : "r"(sums.data()) : "memory");
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  FloatControl::write(before);
  return seconds;
}

// Whether denormals cost so much that an update, most of whose time goes to memory, must show it: a hundred times on
// Intel's processors, nothing on AMD's since Zen. The best of several, since a busy machine disturbs single ones.
bool processor_pays_for_denormals() {
  constexpr double kShows = 10;
  double normal = seconds_of_sums(1.0f), denormal = seconds_of_sums(1e-40f);
  for (int round = 0; round < 5; ++round) {
    normal = std::min(normal, seconds_of_sums(1.0f));
    denormal = std::min(denormal, seconds_of_sums(1e-40f));
  }
  return denormal > kShows * normal;
}

TEST(Denormals, WithoutFlushToZeroTheTestWouldSeeIt) {
  if (!processor_pays_for_denormals()) GTEST_SKIP() << "denormals cost this processor nothing";
  L2L_NEEDS_FAULT_POINTS();
  const l2l::testing::ArmedFaultPoint keep("workers.keep_denormals");
  const double ratio = cost_of_denormals();
  std::printf("without flush-to-zero: %.3f times\n", ratio);
  EXPECT_GT(ratio, kGuard);
}

}  // namespace
}  // namespace l2l::eps::testing

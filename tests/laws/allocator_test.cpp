// Law 3, of the memory that malloc() gives: with steps, validations and saves no role holds more than before.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/fault_point.h"
#include "tests/laws/small_run.h"

namespace l2l {
namespace {

using testing::SmallRun;

constexpr int kSpan = 80;             // steps
constexpr std::int64_t kNoise = 400;  // bytes in a span, five a step

void train(Trainer& trainer, int steps) {
  for (int step = 1; step <= steps; ++step) {
    trainer.step();
    if (step % 20 > 0) continue;
    trainer.save();
    trainer.validation_loss();
  }
}

using Bytes = std::map<std::string, std::int64_t>;  // of each role

Bytes allocated() {
  Bytes bytes;
  const AllocatorUse use = allocator_use().value();
  for (const AllocatorRole& role : use.roles) bytes[role.name] = static_cast<std::int64_t>(role.allocated);
  return bytes;
}

// Bytes by which each role grows in a span: the median of five, after the first 100 steps. Threads that for once run
// side by side need more from then on, and caches of threads hold now more, now less; a leak is in every span.
Bytes growth(const Options& options) {
  constexpr std::size_t kSpans = 5;
  Trainer trainer(options);
  train(trainer, 100);
  std::map<std::string, std::array<std::int64_t, kSpans>> grown;
  for (std::size_t span = 0; span < kSpans; ++span) {
    const Bytes before = allocated();
    train(trainer, kSpan);
    for (const auto& [role, bytes] : allocated()) grown[role][span] = bytes - before.at(role);
  }
  Bytes medians;
  for (auto& [role, spans] : grown) {
    std::nth_element(spans.begin(), spans.begin() + kSpans / 2, spans.end());
    medians[role] = spans[kSpans / 2];
  }
  return medians;
}

Options options_of(const SmallRun& run) {
  Options options = run.options();
  options.checkpoint.keep = 2;
  options.run.steps = 1000;
  return options;
}

TEST(AllocatorRoles, NoneGrowsWithSteps) {
  const SmallRun run;
  for (const char* const execution : {"relay", "resident"}) {
    Options options = options_of(run);
    options.device.execution = execution;
    for (const auto& [role, bytes] : growth(options)) EXPECT_LT(bytes, kNoise) << role << ", " << execution;
  }
}

#ifdef L2L_FAULT_POINTS
TEST(AllocatorRolesNegativeControl, ALeakIsCaughtInItsRole) {
  const SmallRun run;
  arm_fault_point("text.leak");
  const Bytes grown = growth(options_of(run));
  arm_fault_point("");
  for (const auto& [role, bytes] : grown) {
    EXPECT_EQ(bytes >= kSpan * 1000, role == "text") << role << ": " << bytes;
    EXPECT_EQ(bytes >= kNoise, role == "text") << role << ": " << bytes;
  }
}
#endif

}  // namespace
}  // namespace l2l

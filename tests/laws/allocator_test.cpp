// Law 3, of the memory that malloc() gives: with steps, validations and saves no role holds more than before.
#include <gtest/gtest.h>

#include <map>

#include "core/fault_point.h"
#include "tests/laws/small_run.h"

namespace l2l {
namespace {

using testing::SmallRun;

constexpr std::int64_t kNoise = 2 << 10;  // five bytes a step

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

// Bytes by which each role has grown during steps 101 to 500.
Bytes growth(const Options& options) {
  Trainer trainer(options);
  train(trainer, 100);
  const Bytes before = allocated();
  train(trainer, 400);
  Bytes grown = allocated();
  for (const auto& [role, bytes] : before) grown[role] -= bytes;
  return grown;
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
    EXPECT_EQ(bytes >= 400 << 10, role == "text") << role << ": " << bytes;
    EXPECT_EQ(bytes >= kNoise, role == "text") << role << ": " << bytes;
  }
}
#endif

}  // namespace
}  // namespace l2l

// A table in vocabulary chunks is the same model: losses, generated tokens and weights agree with those of the whole
// table as closely as another order of sums allows, and relay and resident execution agree to the bit.
#include <gtest/gtest.h>

#include "tests/laws/outcome.h"
#include "tests/laws/small_run.h"

namespace l2l::chunks_law {
namespace {

using testing::Outcome;
using testing::SmallRun;

constexpr int kSteps = 5;
constexpr std::int64_t kRows = 72;  // four chunks of 256 rows, the last one smaller

Outcome run(const SmallRun& small, std::int64_t chunk, const std::string& execution, const std::string& compute) {
  Options options = small.options();
  options.transfer.vocabulary_chunk = chunk;
  options.device.execution = execution;
  options.precision.compute = compute;
  Trainer trainer(options);
  Outcome outcome;
  for (int step = 0; step < kSteps; ++step) outcome.losses.push_back(trainer.step().loss);
  outcome.validation = trainer.validation_loss().value();
  outcome.tokens = trainer.generate(std::vector<std::int32_t>{'a', 'b'}, {.tokens = 20, .temperature = 0});
  outcome.hash = trainer.weights_hash();
  return outcome;
}

TEST(Chunks, AreTheSameModel) {
  const SmallRun small;
  const Outcome whole = run(small, 0, "relay", "fp32"), chunks = run(small, kRows, "relay", "fp32");
  EXPECT_LE(difference(chunks, whole), 1e-6);
  EXPECT_EQ(chunks.tokens, whole.tokens);
  // The comparison is sharp: a learning rate that differs in the fourth digit fails it.
  Options other = small.options();
  other.optimizer.learning_rate *= 1.001;
  Trainer trainer(other);
  Outcome shifted = whole;
  for (double& loss : shifted.losses) loss = trainer.step().loss;
  EXPECT_GT(difference(shifted, whole), 1e-6);
}

TEST(Chunks, GiveTheSameBitsInRelayAndResident) {
  const SmallRun small;
  for (const char* const compute : {"fp32", "bf16", "fp16"}) {
    const Outcome relay = run(small, kRows, "relay", compute), resident = run(small, kRows, "resident", compute);
    EXPECT_EQ(relay.losses, resident.losses) << compute;
    EXPECT_EQ(relay.validation, resident.validation) << compute;
    EXPECT_EQ(relay.tokens, resident.tokens) << compute;
    EXPECT_EQ(relay.hash, resident.hash) << compute;
  }
}

TEST(Chunks, AnyNumberOfRowsTrains) {
  const SmallRun small;
  const Outcome whole = run(small, 0, "relay", "fp32");
  for (const std::int64_t rows : {1, 8, 100, 255, 256, 1000}) {
    EXPECT_LE(difference(run(small, rows, "relay", "fp32"), whole), 1e-6) << rows;
  }
}

}  // namespace
}  // namespace l2l::chunks_law

// The laws that hold for GPT-2 hold for every family: the table in chunks is the same model, the memory contract is
// exact, and the loss falls.
#include <gtest/gtest.h>

#include "tests/laws/measured_memory.h"
#include "tests/laws/outcome.h"
#include "tests/laws/small_run.h"

namespace l2l::families_law {
namespace {

using testing::Outcome;
using testing::SmallRun;

class Families : public ::testing::TestWithParam<const char*> {
 protected:
  bool generates() const { return std::string(GetParam()) != "bert"; }
  SmallRun run_;
};

Outcome outcome_of(Options options, std::int64_t chunk, const std::string& execution, bool generates) {
  options.transfer.vocabulary_chunk = chunk;
  options.device.execution = execution;
  Trainer trainer(options);
  Outcome outcome;
  for (int step = 0; step < 5; ++step) outcome.losses.push_back(trainer.step().loss);
  outcome.validation = trainer.validation_loss().value();
  if (generates) outcome.tokens = trainer.generate(std::vector<std::int32_t>{'a'}, {.tokens = 10, .temperature = 0});
  outcome.hash = trainer.weights_hash();
  return outcome;
}

TEST_P(Families, ChunksAreTheSameModel) {
  const Outcome whole = outcome_of(run_.options(GetParam()), 0, "relay", generates());
  EXPECT_EQ(outcome_of(run_.options(GetParam()), 0, "resident", generates()), whole);
  for (const std::int64_t chunk : {72, 100}) {
    const Outcome chunks = outcome_of(run_.options(GetParam()), chunk, "relay", generates());
    EXPECT_LE(difference(chunks, whole), 2e-6) << chunk;
    EXPECT_EQ(chunks.tokens, whole.tokens) << chunk;
    EXPECT_EQ(outcome_of(run_.options(GetParam()), chunk, "resident", generates()), chunks) << chunk;
  }
  // The comparison is sharp: a learning rate that differs in the fourth digit fails it.
  Options other = run_.options(GetParam());
  other.optimizer.learning_rate *= 1.001;
  EXPECT_GT(difference(outcome_of(other, 0, "relay", generates()), whole), 2e-6);
}

TEST_P(Families, DeviceAndPinnedBytesAreExact) {
  for (const char* const execution : {"relay", "resident"}) {
    for (const std::int64_t chunk : {0, 72}) {
      Options options = run_.options(GetParam());
      options.device.execution = execution;
      options.transfer.vocabulary_chunk = chunk;
      options.transfer.stash = "host";
      options.device.threads = 2;
      const auto [devices, pinned] = testing::measured_memory(options, 2);
      const Trainer trainer(options);
      EXPECT_EQ(pinned, trainer.contract().pinned_bytes) << execution << chunk;
      EXPECT_EQ(devices.at(0), trainer.contract().device_bytes) << execution << chunk;
    }
  }
}

// The text has 17 letters, equally often: knowing their frequencies alone gives a loss of ln 17 = 2.83; training starts
// at ln 256 = 5.55.
TEST_P(Families, LearnTheLetters) {
  Options options = run_.options(GetParam());
  options.schedule = {.kind = "constant"};
  options.optimizer.learning_rate = 1e-2;
  Trainer trainer(options);
  EXPECT_GT(trainer.validation_loss().value(), 5);
  for (int step = 0; step < 60; ++step) trainer.step();
  const double loss = trainer.validation_loss().value();
  EXPECT_LT(loss, 3.2);
  EXPECT_EQ(trainer.validation_loss().value(), loss);
}

INSTANTIATE_TEST_SUITE_P(All, Families, ::testing::Values("gpt2", "bert", "llama", "llama_tied"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Bert, FillsGapsAndContinuesNothing) {
  const SmallRun run;
  Trainer trainer(run.options("bert"));
  try {
    trainer.generate(std::vector<std::int32_t>{'a'}, {});
    FAIL() << "not refused";
  } catch (const BadInput& error) {
    EXPECT_NE(std::string(error.what()).find("\"bert\""), std::string::npos) << error.what();
  }
}

TEST(Bert, TheMaskIsATokenOfItsOwn) {
  const SmallRun run;
  Options options = run.options("bert");
  options.data.mask_token = 300;
  EXPECT_THROW(Trainer{options}, BadInput);
  options.data.mask_token = 256;
  const double other = Trainer(options).step().loss;
  EXPECT_NE(other, Trainer(run.options("bert")).step().loss);
}

}  // namespace
}  // namespace l2l::families_law

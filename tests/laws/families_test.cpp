// The laws that hold for a GPT-2 hold for every family: the table in chunks is the same model, the contract is exact,
// and training learns.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/laws/small_run.h"

namespace l2l {
namespace {

using testing::SmallRun;

class Families : public ::testing::TestWithParam<const char*> {
 protected:
  bool generates() const { return std::string(GetParam()) != "bert"; }
  SmallRun run_;
};

struct Outcome {
  std::vector<double> losses;
  double validation = 0;
  std::vector<std::int32_t> tokens;
  std::uint64_t hash = 0;
  bool operator==(const Outcome&) const = default;
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

double difference(const Outcome& a, const Outcome& b) {
  double largest = std::abs(a.validation / b.validation - 1);
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    largest = std::max(largest, std::abs(a.losses[i] / b.losses[i] - 1));
  }
  return largest;
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
  // The comparison would notice: another learning rate, in the fourth digit.
  Options other = run_.options(GetParam());
  other.optimizer.learning_rate *= 1.001;
  EXPECT_GT(difference(outcome_of(other, 0, "relay", generates()), whole), 2e-6);
}

// Counts page-locked bytes, which the contract states exactly.
class CountingDevice final : public device::FaultDevice {
 public:
  CountingDevice(std::unique_ptr<device::HostDevice> device, std::uint64_t& pinned)
      : FaultDevice(std::move(device), {}), pinned_(pinned) {}
  std::unique_ptr<device::Buffer> allocate_pinned(Bytes size, std::string_view purpose) override {
    pinned_ += size;
    return FaultDevice::allocate_pinned(size, purpose);
  }

 private:
  std::uint64_t& pinned_;
};

TEST_P(Families, DeviceAndPinnedBytesAreExact) {
  for (const char* const execution : {"relay", "resident"}) {
    for (const std::int64_t chunk : {0, 72}) {
      Options options = run_.options(GetParam());
      options.device.execution = execution;
      options.transfer.vocabulary_chunk = chunk;
      options.transfer.stash = "host";
      options.device.threads = 2;
      std::uint64_t pinned = 0, device = 0;
      device::Device* seen = nullptr;
      testing::record_on(
          options, 2,
          [&](auto inner) {
            auto counting = std::make_unique<CountingDevice>(std::move(inner), pinned);
            seen = counting.get();
            return counting;
          },
          [&] { device = seen->peak_bytes(); });
      const Trainer trainer(options);
      EXPECT_EQ(pinned, trainer.contract().pinned_bytes) << execution << chunk;
      EXPECT_EQ(device, trainer.contract().device_bytes) << execution << chunk;
    }
  }
}

// The text has 17 letters, evenly: ln 17 = 2.83 is what the frequencies alone give, ln 256 = 5.55 where training
// starts.
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
}  // namespace l2l

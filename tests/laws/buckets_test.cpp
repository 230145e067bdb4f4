// Padded samples in microbatches of several lengths: the same gradients as with one length, in the same device memory,
// with less on the link.
#include <gtest/gtest.h>

#include <functional>

#include "l2l/l2l.h"
#include "tests/laws/buckets.h"

namespace l2l::buckets_law {
namespace {

using testing::difference;
using testing::gradients_padded;

constexpr double kTolerance = 1e-6;  // relative L2 of every gradient
constexpr std::int64_t kSequence = testing::PaddedTexts::kSequence;

class Buckets : public ::testing::TestWithParam<const char*> {
 protected:
  Options options(std::int64_t buckets) const { return texts_.options(GetParam(), buckets); }

  const testing::PaddedTexts texts_;
};

TEST_P(Buckets, GradientsAreThoseOfOneLength) {
  const auto nothing = [](Options&) {};
  const std::vector<std::pair<const char*, std::function<void(Options&)>>> ways = {
      {"as it is", nothing},
      {"stash on the device", [](Options& o) { o.transfer.stash = "device"; }},
      {"saved values", [](Options& o) { o.recompute.policy = "min_cut"; }},
      {"all saved, on the host",
       [](Options& o) {
         o.recompute.policy = "none";
         o.transfer.stash = "host";
       }},
      {"resident", [](Options& o) { o.device.execution = "resident"; }},
      {"chunks of the table", [](Options& o) { o.transfer.vocabulary_chunk = 64; }},
      {"core attention", [](Options& o) { o.model.attention = "core"; }},
      {"two devices", [](Options& o) { o.device.count = 2; }},
  };
  for (const auto& [name, prepare] : ways) {
    Options one = options(1), several = options(8);
    prepare(one);
    prepare(several);
    EXPECT_LE(difference(gradients_padded(several), gradients_padded(one)), kTolerance) << name;
  }
}

// Negative control: padding that predicts.
TEST_P(Buckets, APaddedRowThatPredictsIsNoticed) {
  const Options several = options(8);
  const testing::Gradients wrong = gradients_padded(several, [](runtime::Minibatch& minibatch) {
    for (int i = 0; i < minibatch.sequences(); ++i) {
      const runtime::SequenceView sequence = minibatch.sequence(i);
      if (sequence.targets.back() >= 0) continue;
      sequence.targets.back() = 1;
      return;
    }
  });
  EXPECT_GT(difference(wrong, gradients_padded(several)), 1e-3);
}

TEST_P(Buckets, TakeTheMemoryOfTheLongest) {
  const runtime::RunPlan one = runtime::plan_run(options(1)), several = runtime::plan_run(options(8));
  ASSERT_GT(several.options.lengths.size(), 2u);
  EXPECT_EQ(several.arena->bytes(), one.arena->bytes());
}

TEST_P(Buckets, MoveOnlyWhatTheirRowsTake) {
  Options one = options(1), several = options(8);
  one.transfer.stash = several.transfer.stash = "host";
  Trainer long_rows(one), short_rows(several);
  const StepReport whole = long_rows.step(), less = short_rows.step();
  EXPECT_EQ(whole.tokens, 8 * kSequence);
  const double rows = static_cast<double>(less.tokens) / static_cast<double>(whole.tokens);
  EXPECT_LT(rows, 0.8);
  const auto stash = [](const Trainer& trainer) { return static_cast<double>(trainer.link_counters().stash_h2d); };
  EXPECT_DOUBLE_EQ(stash(short_rows) / stash(long_rows), rows);
}

TEST_P(Buckets, AResumedRunHasTheSameBits) {
  Options options = this->options(8);
  const std::string family = GetParam();
  if (family == "gpt2" || family == "bert" || family == "roberta") options.model.dropout = 0.1;
  Trainer whole(options);
  for (int i = 0; i < 4; ++i) whole.step();
  options.checkpoint.directory = texts_.folder() / "checkpoints";
  {
    Trainer first(options);
    first.step();
    first.step();
    first.save();
  }
  Trainer second(options);
  second.resume(options.checkpoint.directory);
  second.step();
  second.step();
  EXPECT_EQ(second.weights_hash(), whole.weights_hash());
}

TEST_P(Buckets, WithPartsAnyNumberOfDevicesGivesTheSameBits) {
  const auto hash_of = [&](std::int64_t parts, std::int64_t devices) {
    Options options = this->options(8);
    options.batch.parts = parts;
    options.device.count = devices;
    Trainer trainer(options);
    for (int i = 0; i < 2; ++i) trainer.step();
    return trainer.weights_hash();
  };
  const std::uint64_t one = hash_of(4, 1);
  EXPECT_EQ(hash_of(4, 2), one);
  EXPECT_EQ(hash_of(4, 4), one);
  EXPECT_NE(hash_of(0, 2), hash_of(0, 4)) << "the order of a sum is seen";
}

// Nothing of the minibatch before is left in what a model is asked afterwards, its lengths and documents least of all.
TEST_P(Buckets, PredictionsAfterAStepAreThoseOfAFreshTrainer) {
  std::vector<std::int32_t> tokens(kSequence);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(97 + i % 26);
  for (const char* const samples : {"padded", "packed"}) {
    Options options = this->options(8);
    options.data.samples = samples;
    options.checkpoint.directory = texts_.folder() / samples;
    const auto logits_of = [&](Trainer& trainer) {
      std::vector<float> all;
      trainer.logits(tokens, [&](std::int64_t, std::int64_t, std::span<const float> values) {
        all.insert(all.end(), values.begin(), values.end());
      });
      return all;
    };
    Trainer trained(options);
    trained.step();
    trained.save();
    Trainer fresh(options);
    fresh.resume(options.checkpoint.directory);
    EXPECT_EQ(logits_of(trained), logits_of(fresh)) << samples;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Buckets,
                         ::testing::Values("gpt2", "bert", "roberta", "llama", "mistral", "qwen2", "qwen3", "gemma2",
                                           "gemma3"),
                         [](const auto& info) { return std::string(info.param); });

class ReversibleBuckets : public Buckets {};

TEST_P(ReversibleBuckets, GradientsAreThoseOfOneLength) {
  for (const char* const kind : {"float", "fixed"}) {
    Options one = options(1), several = options(8);
    one.model.reversible = several.model.reversible = kind;
    EXPECT_LE(difference(gradients_padded(several), gradients_padded(one)), 1e-5) << kind;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReversibleBuckets, ::testing::Values("gpt2", "llama"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace l2l::buckets_law

// A head that tells classes apart instead of tokens: the laws hold for it, too.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "l2l/l2l.h"
#include "tests/laws/buckets.h"
#include "tests/laws/small_run.h"
#include "tests/support/refusal.h"

namespace l2l::heads_law {
namespace {

using testing::difference;
using testing::gradients_padded;
using testing::Record;

std::uint64_t epoch_of(const Options& options) {
  const runtime::ResolvedOptions resolved = runtime::resolve(options);
  return runtime::training_samples(resolved, runtime::dataset_settings(resolved))->samples_per_epoch();
}

class Classification : public ::testing::TestWithParam<const char*> {
 protected:
  Options options() const {
    Options options = texts_.options(GetParam(), /*buckets=*/8);
    options.model.head = "classification";
    options.model.labels = 3;
    options.data.label = "class";
    return options;
  }
  static Record record(const Options& options) { return testing::record_of(options, 3); }

  const testing::PaddedTexts texts_;
};

TEST_P(Classification, RelayIsResidentBitForBit) {
  const Options relay = options();
  Options resident = relay, saved = relay, in_chunks = relay;
  resident.device.execution = "resident";
  saved.recompute.policy = "none";
  saved.transfer.stash = "host";
  in_chunks.transfer.vocabulary_chunk = 64;  // of the embedding alone
  const Record first = record(relay);
  EXPECT_EQ(record(resident), first);
  EXPECT_EQ(record(saved), first);
  const Record other = record(in_chunks);
  for (std::size_t i = 0; i < first.losses.size(); ++i) EXPECT_NEAR(other.losses[i], first.losses[i], 1e-6);
}

TEST_P(Classification, DocumentsThatShareASequenceHaveTheGradientsOfPaddedOnes) {
  Options packed = options(), padded = options();
  packed.data.samples = "packed";
  packed.data.order = padded.data.order = "sequential";
  packed.batch = {.micro_batch = 1, .micro_batches = 7};  // all documents
  ASSERT_EQ(epoch_of(packed), 7u);
  padded.batch = {.micro_batch = 4, .micro_batches = 4};
  const testing::Gradients expected = gradients_padded(padded);
  EXPECT_LE(difference(gradients_padded(packed), expected), 1e-5);
  // Negative control: a class at the row behind its own.
  const testing::Gradients wrong = gradients_padded(packed, [](runtime::Minibatch& minibatch) {
    const runtime::SequenceView sequence = minibatch.sequence(0);
    for (std::size_t row = 0; row + 1 < sequence.targets.size(); ++row) {
      if (sequence.targets[row] < 0) continue;
      std::swap(sequence.targets[row], sequence.targets[row + 1]);
      return;
    }
  });
  EXPECT_GT(difference(wrong, expected), 1e-3);
}

TEST_P(Classification, MetricsDoNotDependOnHowDocumentsShareSequences) {
  std::vector<Evaluation> found;
  for (const char* const samples : {"packed", "padded"}) {
    for (const char* const execution : {"relay", "resident"}) {
      Options own = options();
      own.data.validation = own.data.train;
      own.data.samples = samples;
      own.device.execution = execution;
      Trainer trainer(own);
      found.push_back(trainer.evaluate().value());
      EXPECT_EQ(found.back().tokens, 16);
    }
  }
  ASSERT_EQ(found[0].metrics.size(), 3u);
  EXPECT_EQ(found[0].metrics[0].first, "accuracy");
  for (const Evaluation& each : found) {
    EXPECT_EQ(each.metrics, found[0].metrics);
    EXPECT_NEAR(each.loss, found[0].loss, 1e-5);
  }
}

TEST_P(Classification, BeginsWithEqualChancesAndContinuesNoText) {
  Trainer trainer(options());
  EXPECT_NEAR(trainer.step().loss, std::log(3.0), 0.1);
  const std::int32_t prompt = 97;
  EXPECT_THROW(trainer.generate(std::span(&prompt, 1), {}), BadInput);
}

TEST(ClassificationOptions, AdaptersOfTheHeadsLayersAreRefused) {
  const testing::PaddedTexts texts;
  Options options = texts.options("bert", /*buckets=*/8);
  options.model.head = "classification";
  options.model.labels = 3;
  options.data.label = "class";
  options.lora = {.rank = 2, .targets = {"attention.output.dense"}};
  EXPECT_NO_THROW(runtime::plan_run(options));
  options.lora.targets = {"all-linear"};
  const std::string message = testing::refusal([&] { runtime::plan_run(options); });
  EXPECT_NE(message.find("names the head's layers, too"), std::string::npos) << message;
}

TEST(ClassificationOptions, ThatContradictTheDataAreRefused) {
  const testing::PaddedTexts texts;
  const auto refusal = [&](const std::function<void(Options&)>& change) -> std::string {
    Options options = texts.options("llama", /*buckets=*/8);
    options.model.head = "classification";
    options.model.labels = 3;
    options.data.label = "class";
    change(options);
    try {
      runtime::resolve(options);
    } catch (const BadInput& error) {
      return error.what();
    }
    return "(none)";
  };
  const auto says = [&](const std::function<void(Options&)>& change, const char* part) {
    const std::string message = refusal(change);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  EXPECT_EQ(refusal([](Options&) {}), "(none)");
  says([](Options& o) { o.data.label.clear(); }, "line 1: has no \"label\" among \"class\"");
  says([](Options& o) { o.data.label = "grade"; }, "line 1: has no \"grade\" among \"class\"");
  says([](Options& o) { o.model.labels = 2; }, "not a class from 0 to 1");
  says([](Options& o) { o.data.samples = "stream"; }, "learns labels of documents");
  says([](Options& o) { o.data.format = "text"; }, "it takes JSON Lines or tables");
  says([](Options& o) { o.model.head = "language"; }, "model.labels = 3 is set");
  says([](Options& o) { o.model.head = "regression"; }, "model.labels = 3 is set");
  says([](Options& o) { o.model.head = "choice"; }, "is for encoders");
  says([](Options& o) { o.model.architecture = "gemma3", o.model.head = "tokens"; }, "no such class of gemma3");
  says([](Options& o) { o.model.label_names = {"a", "b"}; }, "has 2 names for model.labels = 3");
  says([](Options& o) { o.model.label_names = {"a", "b", "a"}; }, "has \"a\" twice");
  says([](Options& o) { o.data.task = "sst2"; },
       "data.label = \"class\", but data.task = \"sst2\" stands for \"label\"");
  says(
      [](Options& o) {
        o.model.head = "language";
        o.model.labels = 2;
      },
      "learns no labels");
}

// Numbers, words and choices: every family that has such a head.
struct Head {
  const char *family, *head;
};

class OtherHeads : public ::testing::TestWithParam<Head> {
 protected:
  Options options(const std::string& samples = "padded") const {
    const std::string head = GetParam().head;
    Options options = texts_.options(GetParam().family, /*buckets=*/8);
    options.model.head = head;
    options.model.sequence = head == "choice" ? 64 : options.model.sequence;
    if (head == "regression") options.data.label = "score";
    if (head == "tokens") options.model.label_names = {"O", "B-A", "I-A"}, options.model.labels = 3;
    std::ofstream file(folder_ / "rows.jsonl");
    for (int i = 0; i < 7; ++i) {
      std::string text;
      for (int letter = 0; letter < 3 + 5 * i % 17; ++letter)
        text += static_cast<char>('a' + (i + letter * letter) % 26);
      if (head == "regression") file << R"({"text": ")" << text << R"(", "score": )" << 0.5 * i - 1 << "}\n";
      if (head == "tokens") file << R"({"tokens": [")" << text << R"(", "xy"], "tags": ["B-A", )" << i % 3 << "]}\n";
      if (head == "choice") {
        file << R"({"context": "q", "choices": [")" << text << R"(", "no", "yes!"], "label": )" << i % 3 << "}\n";
      }
    }
    file.close();
    options.data.train = options.data.validation = {(folder_ / "rows.jsonl").string()};
    options.data.samples = samples;
    options.data.order = "sequential";
    return options;
  }
  static Record record(const Options& options) { return testing::record_of(options, 3); }

  const testing::PaddedTexts texts_;
  const testing::TemporaryFolder folder_;
};

TEST_P(OtherHeads, RelayIsResidentBitForBit) {
  Options resident = options(), saved = options();
  resident.device.execution = "resident";
  saved.recompute.policy = "none";
  saved.transfer.stash = "host";
  const Record first = record(options());
  EXPECT_EQ(record(resident), first);
  EXPECT_EQ(record(saved), first);
}

TEST_P(OtherHeads, DocumentsThatShareASequenceHaveTheGradientsOfPaddedOnes) {
  Options packed = options("packed"), padded = options();
  const auto sequences = static_cast<std::int64_t>(epoch_of(packed));
  packed.batch = {.micro_batch = 1, .micro_batches = sequences};
  padded.batch = {.micro_batch = 1, .micro_batches = 7};
  const testing::Gradients expected = gradients_padded(padded);
  // Of choices that are nearly alike little is left of large numbers.
  const double rounding = GetParam().head == std::string("choice") ? 2e-3 : 1e-5;
  EXPECT_LE(difference(gradients_padded(packed), expected), rounding);
  // Negative control: a target at the row behind its own.
  const testing::Gradients wrong = gradients_padded(packed, [](runtime::Minibatch& minibatch) {
    const runtime::SequenceView sequence = minibatch.sequence(0);
    for (std::size_t row = 0; row + 1 < sequence.targets.size(); ++row) {
      if (sequence.targets[row] == -1) continue;
      std::swap(sequence.targets[row], sequence.targets[row + 1]);
      return;
    }
  });
  EXPECT_GT(difference(wrong, expected), 1e-2);
}

TEST_P(OtherHeads, MetricsDoNotDependOnHowDocumentsShareSequences) {
  const Evaluation packed = Trainer(options("packed")).evaluate().value(),
                   padded = Trainer(options()).evaluate().value();
  ASSERT_FALSE(padded.metrics.empty());
  ASSERT_EQ(packed.metrics.size(), padded.metrics.size());
  EXPECT_EQ(packed.tokens, padded.tokens);
  EXPECT_NEAR(packed.loss, padded.loss, 1e-5);
  for (std::size_t i = 0; i < padded.metrics.size(); ++i) {
    EXPECT_EQ(packed.metrics[i].first, padded.metrics[i].first);
    EXPECT_NEAR(packed.metrics[i].second, padded.metrics[i].second, 1e-4);
  }
}

std::vector<Head> other_heads() {
  std::vector<Head> heads = {{"bert", "choice"}, {"roberta", "choice"}};
  for (const char* const family :
       {"gpt2", "bert", "roberta", "llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3"}) {
    heads.push_back({family, "regression"});
    if (family != std::string("gemma3")) heads.push_back({family, "tokens"});
  }
  return heads;
}

INSTANTIATE_TEST_SUITE_P(All, OtherHeads, ::testing::ValuesIn(other_heads()),
                         [](const auto& info) { return std::string(info.param.family) + "_" + info.param.head; });

INSTANTIATE_TEST_SUITE_P(All, Classification,
                         ::testing::Values("gpt2", "bert", "roberta", "llama", "mistral", "qwen2", "qwen3", "gemma2",
                                           "gemma3"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace l2l::heads_law

// Training draws each sample once in an epoch. What it was given shows in the rows of the embedding table that a step
// changed: every byte of the data stands in them once, so a byte names the sample that it came from.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>

#include "formats/safetensors.h"
#include "tests/laws/small_run.h"

namespace l2l::each_sample_once {
namespace {

using Tokens = std::set<std::int32_t>;

constexpr std::int64_t kSequence = 5, kHidden = 8, kVocabulary = 256;
// A stream has twelve windows from any phase; documents have two to six bytes, all of which but the last are inputs.
constexpr std::int64_t kStream = 65, kDocuments = 12, kInputs = 2 * (1 + 2 + 3 + 4 + 5) + 1 + 2;

struct Shape {
  std::int64_t micro_batch = 1, micro_batches = 1, devices = 1;
  const char* execution = "relay";
  const char* stash = "host";
  const char* update = "eager";
  std::int64_t minibatch() const { return micro_batch * micro_batches; }
};

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << shape.micro_batch << " x " << shape.micro_batches << " on " << shape.devices << ", " << shape.execution
             << ", stash " << shape.stash << ", " << shape.update;
}

class EachSampleOnce : public ::testing::TestWithParam<const char*> {
 protected:
  EachSampleOnce() {
    ::setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
    std::string text;
    for (char byte = '!'; stream() && byte < '!' + kStream; ++byte) text += byte;
    char byte = '!';
    for (std::int64_t document = 0; !stream() && document < kDocuments; ++document) {
      if (document > 0) text += ' ';
      for (std::int64_t i = 0; i < 2 + document % 5; ++i) text += byte++;
    }
    std::ofstream(folder_ / "text", std::ios::binary) << text;
  }

  bool stream() const { return std::strcmp(GetParam(), "stream") == 0; }

  Options options(const Shape& shape, const std::string& directory) const {
    Options options;
    options.precision.compute = "fp32";
    options.model = {.architecture = "llama",
                     .layers = 2,
                     .hidden = kHidden,
                     .heads = 2,
                     .vocabulary = kVocabulary,
                     .sequence = kSequence,
                     .dropout = 0,
                     .tie_embeddings = false};
    options.data.train = {(folder_ / "text").string()};
    options.data.format = "text";
    options.data.samples = GetParam();
    options.recompute.policy = "full";
    if (!stream()) options.data.separator = " ";
    options.device.kind = "host";
    options.device.count = shape.devices;
    options.device.threads = options.eps.threads = 1;
    options.device.execution = shape.execution;
    options.transfer.stash = shape.stash;
    options.batch = {.micro_batch = shape.micro_batch, .micro_batches = shape.micro_batches};
    options.optimizer = {.name = "sgd", .learning_rate = 0.5, .momentum = 0, .weight_decay = 0};
    options.optimizer.update = shape.update;
    options.checkpoint.directory = folder_ / directory;
    options.checkpoint.keep = 1000;
    options.run.steps = 1000;
    return options;
  }

  // What a data set of our own says of the samples.
  std::unique_ptr<runtime::Samples> samples() const {
    const runtime::ResolvedOptions resolved = runtime::resolve(options({}, "none"));
    return runtime::training_samples(resolved, runtime::dataset_settings(resolved));
  }

  static std::vector<float> embedding(const std::filesystem::path& checkpoint) {
    const formats::SafetensorsFile file(checkpoint / "model.safetensors");
    const formats::TensorEntry* const tensor = file.find("model.embed_tokens.weight");
    std::vector<float> values(kVocabulary * kHidden);
    file.read(*tensor, values);
    return values;
  }

  // Trains up to `steps` and saves after each step. Returns the tokens that each step was given.
  std::vector<Tokens> train(Trainer& trainer, std::int64_t steps) const {
    std::vector<Tokens> seen;
    std::vector<float> before = embedding(trainer.save());
    while (trainer.completed_steps() < steps) {
      trainer.step();
      const std::vector<float> after = embedding(trainer.save());
      Tokens& tokens = seen.emplace_back();
      for (std::size_t i = 0; i < after.size(); ++i) {
        if (after[i] != before[i]) tokens.insert(static_cast<std::int32_t>(i / kHidden));
      }
      before = after;
    }
    return seen;
  }

  // What samples [first, first + count) hold.
  static Tokens held(const runtime::Samples& samples, std::uint64_t first, std::int64_t count) {
    Tokens held;
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<std::int32_t> tokens(kSequence), targets(kSequence), positions(kSequence), begins(kSequence),
          ends(kSequence), types(kSequence);
      samples.sample(first + static_cast<std::uint64_t>(i), {tokens, targets, positions, begins, ends, types});
      for (std::size_t row = 0; row < tokens.size(); ++row) {
        if (targets[row] >= 0) held.insert(tokens[row]);
      }
    }
    return held;
  }

  testing::TemporaryFolder folder_;
};

constexpr Shape kShapes[] = {{1, 1},
                             {3, 1},
                             {1, 4},
                             {2, 3},
                             {2, 2, 2},
                             {1, 3, 3, "relay", "device"},
                             {3, 2, 1, "resident", "device"},
                             {2, 2, 2, "resident"},
                             {1, 2, 1, "relay", "device", "after_backward"},
                             {12, 1},
                             // Minibatches that do not divide an epoch, and one that is longer.
                             {5, 1},
                             {1, 7},
                             {5, 2, 2},
                             {5, 5}};

TEST_P(EachSampleOnce, ForTwoEpochsAtEveryShape) {
  const std::unique_ptr<runtime::Samples> oracle = samples();
  const auto epoch = static_cast<std::int64_t>(oracle->samples_per_epoch());
  ASSERT_GT(epoch, 5);
  int index = 0;
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(shape);
    Trainer trainer(options(shape, std::to_string(index++)));
    const std::int64_t minibatch = shape.minibatch(), steps = (2 * epoch + minibatch - 1) / minibatch;
    const std::vector<Tokens> seen = train(trainer, steps);
    std::uint64_t position = 0;
    for (const Tokens& tokens : seen) {
      EXPECT_EQ(tokens, held(*oracle, position, minibatch)) << "at position " << position;
      position += static_cast<std::uint64_t>(minibatch);
    }
  }
}

// The same without the help of a data set: by counting.
TEST_P(EachSampleOnce, EveryTokenIsCountedOnceInAnEpoch) {
  const auto epoch = static_cast<std::int64_t>(samples()->samples_per_epoch());
  for (std::int64_t minibatch = 1; minibatch <= epoch; ++minibatch) {
    if (epoch % minibatch != 0) continue;
    const Shape shape{minibatch % 2 == 0 ? minibatch / 2 : minibatch, minibatch % 2 == 0 ? 2 : 1};
    SCOPED_TRACE(shape);
    Trainer trainer(options(shape, "counted-" + std::to_string(minibatch)));
    const std::vector<Tokens> seen = train(trainer, 2 * epoch / minibatch);
    for (std::size_t first = 0; first < seen.size(); first += seen.size() / 2) {
      std::size_t tokens = 0;
      Tokens different;
      for (std::size_t step = first; step < first + seen.size() / 2; ++step) {
        tokens += seen[step].size();
        different.insert(seen[step].begin(), seen[step].end());
      }
      EXPECT_EQ(tokens, different.size()) << "drawn again in the same epoch";
      EXPECT_EQ(different.size(), stream() ? epoch * kSequence : kInputs) << "left out of an epoch";
    }
  }
}

TEST_P(EachSampleOnce, AfterResumingAnywhereAndInAnotherShape) {
  const std::unique_ptr<runtime::Samples> oracle = samples();
  const Shape whole{2, 1}, others[] = {{2, 1}, {1, 2, 2}, {1, 5}, {3, 1, 1, "resident"}};
  const std::int64_t steps = static_cast<std::int64_t>(oracle->samples_per_epoch()) + 1;
  Trainer first(options(whole, "whole"));
  train(first, steps);
  int index = 0;
  for (std::int64_t from = 1; from < steps; from += 2) {
    const Shape& shape = others[index % std::size(others)];
    SCOPED_TRACE(shape);
    Trainer trainer(options(shape, "resumed-" + std::to_string(index++)));
    char name[32];
    std::snprintf(name, sizeof(name), "step-%08d", static_cast<int>(from));
    trainer.resume(folder_ / "whole" / name);
    auto position = static_cast<std::uint64_t>(from * whole.minibatch());
    for (const Tokens& tokens : train(trainer, from + 3)) {
      EXPECT_EQ(tokens, held(*oracle, position, shape.minibatch())) << "resumed at step " << from;
      position += static_cast<std::uint64_t>(shape.minibatch());
    }
  }
}

// Windows that fill no whole minibatch included.
TEST_P(EachSampleOnce, ValidationPredictsEachTokenOnceAtEveryShape) {
  std::optional<double> loss;
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(shape);
    Options options = this->options(shape, "none");
    options.data.validation = options.data.train;
    Trainer trainer(options);
    const Evaluation evaluation = trainer.evaluate().value();
    // Of a stream every byte, behind the separator that begins its document.
    EXPECT_EQ(evaluation.tokens, stream() ? kStream : kInputs);
    if (!loss) loss = evaluation.loss;
    EXPECT_NEAR(evaluation.loss, *loss, 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Samples, EachSampleOnce, ::testing::Values("stream", "packed", "padded"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace l2l::each_sample_once

// A program's own samples (include/l2l/data.h).
#include "l2l/data.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "tests/laws/small_run.h"
#include "tests/support/refusal.h"

namespace l2l::data_source {
namespace {

using testing::Record;
using testing::SmallRun;

constexpr std::int64_t kSequence = 13;
using Samples = std::vector<MemorySource::Sample>;

// Tokens that follow from the index, and in the first row the epoch.
std::int64_t write_sample(const SamplePosition& position, const SampleView& sample) {
  for (std::size_t row = 0; row < sample.tokens.size(); ++row) {
    sample.tokens[row] = static_cast<std::int32_t>((position.index * 7 + row * row * 3) % 64);
    sample.targets[row] = static_cast<std::int32_t>((position.index * 7 + (row + 1) * (row + 1) * 3) % 64);
  }
  return static_cast<std::int64_t>(sample.tokens.size());
}

template <typename Call>
void expect_refused(const Call& call, const std::string& message) {
  const std::string said = testing::refusal(call);
  EXPECT_NE(said.find(message), std::string::npos) << said;
}

class DataSource : public ::testing::Test {
 protected:
  Options without_files(const std::string& family = "gpt2") const {
    Options options = run_.options(family);
    options.data.train.clear();
    options.data.validation.clear();
    options.checkpoint.directory.clear();
    return options;
  }
  Options with(std::shared_ptr<const SampleSource> source) const {
    Options options = without_files();
    options.data.train_source = std::move(source);
    return options;
  }
  static std::shared_ptr<const SampleSource> callback(CallbackSource::Read read = write_sample,
                                                      std::uint64_t identity = 1) {
    return std::make_shared<CallbackSource>(31, identity, std::move(read));
  }
  static Record record(const Options& options) { return testing::record_of(options, 8); }

  const SmallRun run_;
};

// In the order of the data, and with masks that follow from the position.
TEST_F(DataSource, FilesThroughASourceGiveTheSameBits) {
  for (const char* const family : {"gpt2", "bert"}) {
    for (const char* const samples : {"stream", "packed"}) {
      Options files = run_.options(family);
      files.data.order = "sequential";
      files.data.samples = samples;
      files.data.separator = "a";
      files.checkpoint.directory.clear();
      Options source = files;
      source.data.train.clear();
      source.data.train_source = std::make_shared<FileSource>(files, FileSource::Files::train);
      source.data.validation.clear();
      source.data.validation_source = std::make_shared<FileSource>(files, FileSource::Files::validation);
      EXPECT_EQ(record(source), record(files)) << family << " " << samples;
      Trainer by_source(source), by_files(files);
      const Evaluation expected = by_files.evaluate().value(), found = by_source.evaluate().value();
      EXPECT_EQ(found.loss, expected.loss) << family << " " << samples;
      EXPECT_EQ(found.tokens, expected.tokens);
    }
  }
}

TEST_F(DataSource, MemoryAndACallbackGiveTheSameBits) {
  Samples samples;
  for (std::uint64_t i = 0; i < 31; ++i) {
    MemorySource::Sample sample{std::vector<std::int32_t>(kSequence), std::vector<std::int32_t>(kSequence)};
    write_sample({.index = i}, {sample.tokens, sample.targets});
    if (i % 2 == 0) {  // the next token is the target: so they need not be given
      sample.tokens.push_back(sample.targets.back());
      sample.targets.clear();
    }
    samples.push_back(std::move(sample));
  }
  const Record expected = record(with(callback()));
  EXPECT_EQ(record(with(std::make_shared<MemorySource>(samples))), expected);
  samples[5].tokens[3] ^= 1;
  EXPECT_NE(record(with(std::make_shared<MemorySource>(samples))), expected);
}

TEST_F(DataSource, EachSampleComesOnceAnEpoch) {
  for (const char* const order : {"random", "sequential"}) {
    std::mutex mutex;
    std::map<std::uint64_t, SamplePosition> drawn;  // by number
    const auto note = [&](const SamplePosition& position, const SampleView& sample) {
      const std::lock_guard lock(mutex);
      drawn[position.number] = position;
      return write_sample(position, sample);
    };
    Options options = with(callback(note));
    options.data.order = order;
    record(options);
    ASSERT_GE(drawn.size(), 48u);
    std::set<std::uint64_t> first_epoch;
    bool sorted = true;
    for (std::uint64_t number = 0; number < 48; ++number) {
      ASSERT_TRUE(drawn.contains(number));
      EXPECT_EQ(drawn[number].epoch, number / 31);
      if (number < 31) first_epoch.insert(drawn[number].index);
      sorted = sorted && drawn[number].index == number % 31;
    }
    EXPECT_EQ(first_epoch.size(), 31u);
    EXPECT_EQ(sorted, order == std::string("sequential"));
  }
}

TEST_F(DataSource, IsReadAheadOnThreadsOfItsOwn) {
  std::mutex mutex;
  std::set<std::thread::id> readers;
  std::atomic<std::uint64_t> read = 0;
  const auto note = [&](const SamplePosition& position, const SampleView& sample) {
    {
      const std::lock_guard lock(mutex);
      readers.insert(std::this_thread::get_id());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++read;
    return write_sample(position, sample);
  };
  Options options = with(callback(note));
  options.data.threads = 3;
  Trainer trainer(options);
  trainer.step();
  // What the second step takes is read without being asked for.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (read < 12 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(read, 12u);
  trainer.step();
  EXPECT_FALSE(readers.contains(std::this_thread::get_id()));
  EXPECT_GE(readers.size(), 2u);
}

TEST_F(DataSource, AResumedRunGoesOnWhereItWas) {
  Options options = with(callback());
  options.checkpoint.directory = run_.folder() / "checkpoints";
  const Record whole = record(options);
  {
    Trainer trainer(options);
    testing::record_of(trainer, 5);
    trainer.save();
  }
  Trainer trainer(options);
  trainer.resume(options.checkpoint.directory);
  EXPECT_EQ(testing::record_of(trainer, 3).hash, whole.hash);
  // Another source.
  Options other = options;
  other.data.train_source = callback(write_sample, 2);
  Trainer refused(other);
  expect_refused([&] { refused.resume(options.checkpoint.directory); }, "source of samples");
  EXPECT_NO_THROW(Trainer(other).resume(options.checkpoint.directory, {"data.train"}));
}

// What lies behind a sample's rows is nothing that an encoder sees.
TEST_F(DataSource, RowsBehindASampleArePadding) {
  const auto loss = [&](const char* family, std::int64_t rows, std::int32_t behind) {
    Options options = without_files(family);
    options.model.dropout = 0;
    options.data.samples = "packed";
    options.data.validation_source = callback([=](const SamplePosition& position, const SampleView& sample) {
      write_sample(position, sample);
      for (std::size_t row = 6; row < sample.tokens.size(); ++row)
        sample.tokens[row] = behind, sample.targets[row] = -1;
      return rows;
    });
    return Trainer(options).validation_loss().value();
  };
  for (const char* const family : {"gpt2", "bert"}) {
    EXPECT_EQ(loss(family, 6, 1), loss(family, 6, 2)) << family;
  }
  EXPECT_NE(loss("bert", kSequence, 1), loss("bert", kSequence, 2));  // negative control
}

TEST_F(DataSource, WhatItWritesIsChecked) {
  const auto refused = [&](const CallbackSource::Read& change, const std::string& message) {
    Options options = with(callback([=](const SamplePosition& position, const SampleView& sample) {
      write_sample(position, sample);
      return change(position, sample);
    }));
    options.data.samples = "packed";
    Trainer trainer(options);
    expect_refused([&] { trainer.step(); }, message);
  };
  constexpr std::int64_t all = kSequence;
  refused([](auto&, const SampleView& to) { return to.tokens[4] = 256, all; }, "row 4: the token is 256");
  refused([](auto&, const SampleView& to) { return to.tokens[4] = -1, all; }, "row 4: the token is -1");
  refused([](auto&, const SampleView& to) { return to.targets[2] = 256, all; }, "row 2: the target is 256");
  refused([](auto&, const SampleView& to) { return to.targets[2] = -2, all; }, "row 2: the target is -2");
  refused([](auto&, const SampleView& to) { return to.begins[2] = 3, all; }, "row 2: the begin");
  refused([](auto&, const SampleView& to) { return to.ends[2] = 2, all; }, "row 2: the end");
  refused([](auto&, const SampleView& to) { return to.ends[2] = 99, all; }, "row 2: the end");
  // Documents that overlap, or reach into the padding.
  refused([](auto&, const SampleView& to) { return to.begins[5] = 5, all; }, "row 5: the begin");
  refused([](auto&, const SampleView& to) { return to.ends[5] = 9, all; }, "row 5: the begin");
  refused(
      [](auto&, const SampleView& to) {
        for (std::size_t row = 0; row < 6; ++row) to.ends[row] = 8;
        return std::int64_t{6};
      },
      "row 0: the end");
  refused([](auto&, const SampleView& to) { return to.positions[2] = 13, all; }, "row 2: its position");
  refused([](auto&, const SampleView& to) { return to.token_types[2] = 99, all; }, "row 2: its token type");
  refused([](auto&, const SampleView&) { return std::int64_t{0}; }, "returned 0 rows");
  refused([](auto&, const SampleView&) { return all + 1; }, "returned 14 rows");
}

TEST_F(DataSource, WhatItThrowsEndsTheStep) {
  Options options = with(callback([](const SamplePosition& position, const SampleView& sample) {
    if (position.number == 8) throw std::runtime_error("the disk is gone");
    return write_sample(position, sample);
  }));
  Trainer trainer(options);
  trainer.step();
  try {
    trainer.step();
    FAIL() << "goes on";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the disk is gone"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(" of the program's source: "), std::string::npos) << error.what();
    EXPECT_THROW(std::rethrow_if_nested(error), std::runtime_error);
  }
}

TEST_F(DataSource, WhatIsNoExceptionEndsTheStepToo) {
  Trainer trainer(with(callback([](const SamplePosition&, const SampleView&) -> std::int64_t { throw 5; })));
  try {
    trainer.step();
    FAIL() << "goes on";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(" of the program's source: "), std::string::npos) << error.what();
    EXPECT_THROW(std::rethrow_if_nested(error), int);
  }
}

TEST_F(DataSource, StepsBeforeASampleThatCannotBeReadAreSaved) {
  Options options = with(callback([](const SamplePosition& position, const SampleView& sample) {
    if (position.number == 20) throw std::runtime_error("the disk is gone");
    return write_sample(position, sample);
  }));
  options.checkpoint.directory = run_.folder() / "saved_before";
  Trainer trainer(options);
  EXPECT_NE(testing::refusal([&] { trainer.run(); }).find("the disk is gone"), std::string::npos);
  const std::int64_t per_step = options.batch.micro_batch * options.batch.micro_batches;
  Trainer next(options);
  next.resume(options.checkpoint.directory);
  EXPECT_EQ(next.completed_steps(), 20 / per_step);
  EXPECT_EQ(next.weights_hash(), trainer.weights_hash());
}

TEST_F(DataSource, SamplesThatTeachNothingAreRefused) {
  const auto blank = callback([](const SamplePosition&, const SampleView&) { return kSequence; });
  Options options = with(blank);
  options.data.validation_source = blank;
  Trainer trainer(options);
  expect_refused([&] { trainer.validation_loss(); }, "nothing to predict");
  expect_refused([&] { trainer.step(); }, "nothing to learn");
}

TEST_F(DataSource, FilesAreReadByAModelThatFitsThem) {
  Options files = run_.options();
  files.data.separator = "a";
  files.data.samples = "packed";
  const auto source = std::make_shared<FileSource>(files, FileSource::Files::train);
  Options shorter = with(source);
  shorter.data.samples = "packed";
  shorter.model.sequence = 6;
  Trainer short_of_rows(shorter);
  expect_refused([&] { short_of_rows.step(); }, "model.sequence = 13 is read by a model of 6");
  Trainer without_documents(with(source));
  expect_refused([&] { without_documents.step(); }, "set data.samples = \"packed\"");
  // A source for validation has no say in how files are read.
  Options beside = files;
  beside.checkpoint.directory.clear();
  const Record expected = record(beside);
  beside.data.samples = "auto";
  beside.data.validation.clear();
  beside.data.validation_source = std::make_shared<FileSource>(files, FileSource::Files::validation);
  EXPECT_EQ(record(beside), expected);
}

TEST_F(DataSource, OptionsThatContradictItAreRefused) {
  Options options = with(callback());
  options.data.train = {"file"};
  expect_refused([&] { Trainer{options}; }, "data.train names files beside");
  options = with(callback());
  options.run.validate_every = 1;
  expect_refused([&] { Trainer{options}; }, "run.validate_every");
  options.data.validation_source = callback();
  EXPECT_NO_THROW(Trainer{options});
  expect_refused([&] { Trainer{with(std::make_shared<CallbackSource>(0, 1, write_sample))}; }, "is empty");
  expect_refused([&] { CallbackSource(31, 1, nullptr); }, "CallbackSource: there is no function");
  expect_refused([&] { MemorySource(Samples{{{1}, {}}}); }, "at least 2");
  expect_refused([&] { MemorySource(Samples{{{1, 2}, {1}}}); }, "1 targets");
  expect_refused([&] { FileSource(without_files(), FileSource::Files::train); }, "names no file");
  Samples longer{{std::vector<std::int32_t>(15, 1), {}}};
  Trainer trainer(with(std::make_shared<MemorySource>(longer)));
  expect_refused([&] { trainer.step(); }, "model.sequence = 13");
}

}  // namespace
}  // namespace l2l::data_source

#include "runtime/data/document_dataset.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <set>

#include "core/choice_target.h"
#include "l2l/log.h"
#include "runtime/data/permutation.h"
#include "tests/runtime/test_data.h"

namespace l2l::runtime {
namespace {

using namespace test;

constexpr std::size_t kRowsOfSequence = 32;

struct Row {
  std::vector<std::int32_t> tokens, targets, positions, begins, ends, types;

  Row() {
    for (std::vector<std::int32_t>* const line : {&tokens, &targets, &positions, &begins, &ends, &types}) {
      line->assign(kRowsOfSequence, -7);
    }
  }
  SequenceView view() { return {tokens, targets, positions, begins, ends, types}; }
};

// Documents of the given lengths whose tokens count on: a token is its own place in the stream.
DataFiles documents(const Data& data, const std::vector<std::uint64_t>& lengths, const std::string& name = "ids.bin") {
  std::uint64_t end = 0;
  std::vector<std::uint64_t> ends;
  for (const std::uint64_t length : lengths) ends.push_back(end += length);
  data.write_counting(name, static_cast<std::uint16_t>(end));
  DataFiles files = data.find({name}, TokenFormat::tokens);
  files.document_ends = ends;
  return files;
}

std::vector<std::uint64_t> random_lengths(std::size_t count, std::uint64_t most) {
  std::mt19937 random(3);
  std::vector<std::uint64_t> lengths(count);
  for (std::uint64_t& length : lengths) length = 1 + random() % most;
  return lengths;
}

DatasetSettings settings(SampleKind kind) {
  DatasetSettings settings{kRowsOfSequence, 65536, 5};
  settings.kind = kind;
  return settings;
}

TEST(DocumentDataset, EachTokenButTheFirstOfADocumentIsPredictedOnceFromItsOwnDocument) {
  const Data data;
  const std::vector<std::uint64_t> lengths = random_lengths(600, 70);
  const DataFiles files = documents(data, lengths);
  const DocumentDataset dataset(files, settings(SampleKind::packed));
  std::vector<std::uint64_t> begin_of(files.tokens());
  std::uint64_t begin = 0;
  for (const std::uint64_t end : files.document_ends) {
    for (std::uint64_t token = begin; token < end; ++token) begin_of[token] = begin;
    begin = end;
  }
  std::vector<int> predicted(files.tokens(), 0);
  for (std::uint64_t position = 0; position < dataset.samples_per_epoch(); ++position) {
    Row row;
    dataset.sample(position, row.view());
    for (std::size_t i = 0; i < kRowsOfSequence; ++i) {
      ASSERT_GE(row.begins[i], 0);
      ASSERT_LE(row.begins[i], static_cast<std::int32_t>(i));
      ASSERT_GT(row.ends[i], static_cast<std::int32_t>(i));
      ASSERT_EQ(row.positions[i], static_cast<std::int32_t>(i) - row.begins[i]);
      ASSERT_EQ(row.types[i], 0);
      if (row.targets[i] < 0) {
        ASSERT_EQ(row.begins[i], static_cast<std::int32_t>(i));  // padding
        continue;
      }
      const auto token = static_cast<std::uint64_t>(row.tokens[i]);
      ASSERT_EQ(row.targets[i], row.tokens[i] + 1);
      ASSERT_EQ(begin_of[token], begin_of[token + 1]);
      const auto first = static_cast<std::uint64_t>(row.tokens[static_cast<std::size_t>(row.begins[i])]);
      ASSERT_EQ(begin_of[first], begin_of[token]);
      ++predicted[token + 1];
    }
  }
  for (std::uint64_t token = 0; token < files.tokens(); ++token) {
    ASSERT_EQ(predicted[token], begin_of[token] == token ? 0 : 1) << token;
  }
}

TEST(DocumentDataset, PackingWastesNextToNothing) {
  const Data data;
  for (const std::uint64_t most : {10u, 33u, 70u}) {
    const DataFiles files = documents(data, random_lengths(600, most));
    const DocumentDataset dataset(files, settings(SampleKind::packed));
    std::uint64_t rows = 0;
    for (std::uint64_t i = 0; i < dataset.samples_per_epoch(); ++i) {
      for (const Piece& piece : dataset.pieces(i)) rows += piece.rows;
    }
    EXPECT_GE(static_cast<double>(rows), 0.98 * static_cast<double>(dataset.samples_per_epoch() * kRowsOfSequence))
        << most;
  }
}

TEST(DocumentDataset, PaddedHasADocumentInEachSequenceAndCutsLongOnes) {
  const Data data;
  const DocumentDataset dataset(documents(data, {5, 1, 40, 33, 2}), settings(SampleKind::padded));
  ASSERT_EQ(dataset.windows(), 4u);  // a document of one token predicts nothing
  EXPECT_EQ(dataset.truncated(), 1u);
  const std::vector<std::pair<std::int32_t, std::size_t>> expected = {{0, 4}, {6, 32}, {46, 32}, {79, 1}};
  for (std::uint64_t i = 0; i < 4; ++i) {
    Row row;
    dataset.validation_window(i, row.view());
    for (std::size_t j = 0; j < kRowsOfSequence; ++j) {
      const bool inside = j < expected[i].second;
      EXPECT_EQ(row.tokens[j], inside ? expected[i].first + static_cast<std::int32_t>(j) : 0);
      EXPECT_EQ(row.targets[j], inside ? row.tokens[j] + 1 : -1);
    }
  }
  Row behind;
  dataset.validation_window(4, behind.view());
  EXPECT_EQ(behind.targets, std::vector<std::int32_t>(kRowsOfSequence, -1));
}

TEST(DocumentDataset, InOrderIsTheOrderOfTheData) {
  const Data data;
  DatasetSettings in_order = settings(SampleKind::padded);
  in_order.in_order = true;
  const DocumentDataset dataset(documents(data, random_lengths(50, 30)), in_order);
  for (std::uint64_t position = 0; position < 2 * dataset.windows(); ++position) {
    Row row, expected;
    dataset.sample(position, row.view());
    dataset.validation_window(position % dataset.windows(), expected.view());
    EXPECT_EQ(row.tokens, expected.tokens);
  }
}

// Tokens that are not to be learnt are read, but not predicted; what predicts nothing is left out.
TEST(DocumentDataset, PredictsWhatIsToBeLearnt) {
  const Data data;
  std::string bytes;
  for (std::uint32_t token = 0; token < 20; ++token) {
    const std::uint32_t stored = token | (token < 7 || token >= 12 ? kNotLearnt : 0);
    for (int byte = 0; byte < 4; ++byte) bytes += static_cast<char>(stored >> 8 * byte & 255);
  }
  data.write("ids.u32", bytes);
  DataFiles files = data.find({"ids.u32"}, TokenFormat::tokens32);
  files.document_ends = {10, 12, 20};
  files.flagged = true;
  const DocumentDataset dataset(files, settings(SampleKind::padded));
  ASSERT_EQ(dataset.windows(), 2u);
  Row row;
  dataset.validation_window(0, row.view());
  for (std::int32_t i = 0; i < 9; ++i) {
    EXPECT_EQ(row.tokens[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(row.targets[static_cast<std::size_t>(i)], i + 1 < 7 ? -1 : i + 1);
  }
}

// The class is predicted at the first row, or at the last; what is too long keeps its last token.
TEST(DocumentDataset, PredictsTheClassOfADocument) {
  const Data data;
  DataFiles files = documents(data, {5, 40, 3});
  files.labels = {2, 0, 1};
  for (const bool causal : {false, true}) {
    for (const SampleKind kind : {SampleKind::padded, SampleKind::packed}) {
      DatasetSettings with = settings(kind);
      with.head = models::HeadKind::classification;
      with.causal = causal;
      const DocumentDataset dataset(files, with);
      ASSERT_EQ(dataset.windows(), kind == SampleKind::padded ? 3u : 2u);
      EXPECT_EQ(dataset.truncated(), 1u);
      Row row;
      dataset.validation_window(0, row.view());
      std::vector<std::int32_t> expected(kRowsOfSequence, -1);
      expected[causal ? 4 : 0] = 2;
      if (kind == SampleKind::packed) expected[causal ? 7 : 5] = 1;
      EXPECT_EQ(row.targets, expected);
      EXPECT_EQ(row.tokens[4], 4);
      dataset.validation_window(1, row.view());
      expected.assign(kRowsOfSequence, -1);
      expected[causal ? kRowsOfSequence - 1 : 0] = 0;
      EXPECT_EQ(row.targets, expected);
      EXPECT_EQ(row.tokens[0], 5);
      EXPECT_EQ(row.tokens[kRowsOfSequence - 2], 5 + static_cast<std::int32_t>(kRowsOfSequence) - 2);
      EXPECT_EQ(row.tokens.back(), 44);
    }
  }
  DatasetSettings with = settings(SampleKind::padded);
  with.head = models::HeadKind::classification;
  EXPECT_SAYS(bad_input([&] { DocumentDataset(documents(data, {5}), with); }), "its documents have no labels");
}

TEST(DocumentDataset, DocumentsOfOneClassAreWarnedOf) {
  const Data data;
  DataFiles files = documents(data, {5, 6, 3});
  DatasetSettings with = settings(SampleKind::padded);
  with.head = models::HeadKind::classification;
  for (const std::vector<std::int32_t>& labels : {std::vector{1, 1, 1}, {1, 1, 0}}) {
    files.labels = labels;
    std::string said;
    set_log_sink([&](LogLevel, std::string_view message) { said += message; });
    DocumentDataset(files, with);
    set_log_sink({});
    const bool warned = said.find("all 3 documents are of class 1") != std::string::npos;
    EXPECT_EQ(warned, labels[2] == 1) << said;
  }
}

// Words have their classes at their own rows; a document that is too long keeps its last token, which has none.
TEST(DocumentDataset, PredictsTheClassesOfWords) {
  const Data data;
  DataFiles files = documents(data, {4, 40});
  files.labels.assign(44, kNoLabel);
  files.labels[1] = 2, files.labels[3] = 0, files.labels[5] = 1, files.labels[40] = 2;
  DatasetSettings with = settings(SampleKind::padded);
  with.head = models::HeadKind::tokens;
  const DocumentDataset dataset(files, with);
  EXPECT_EQ(dataset.truncated(), 1u);
  Row row;
  dataset.validation_window(0, row.view());
  std::vector<std::int32_t> expected(kRowsOfSequence, -1);
  expected[1] = 2, expected[3] = 0;
  EXPECT_EQ(row.targets, expected);
  dataset.validation_window(1, row.view());
  expected.assign(kRowsOfSequence, -1);
  expected[1] = 1;
  EXPECT_EQ(row.targets, expected);
  EXPECT_EQ(row.tokens.back(), 43);
}

// The choices of a question share a sequence; where they are too long, each has an equal part.
TEST(DocumentDataset, KeepsTheChoicesOfAQuestionTogether) {
  const Data data;
  DataFiles files = documents(data, {3, 4, 40, 40, 2, 2, 2});
  const std::int32_t further = kFurtherChoice;
  files.labels = {choice_target(2, 1), further, choice_target(2, 0), further, choice_target(3, 2), further, further};
  DatasetSettings with = settings(SampleKind::packed);
  with.head = models::HeadKind::choice;
  with.causal = false;
  const DocumentDataset dataset(files, with);
  ASSERT_EQ(dataset.windows(), 2u);
  EXPECT_EQ(dataset.truncated(), 1u);
  Row row;
  dataset.validation_window(0, row.view());
  std::vector<std::int32_t> expected(kRowsOfSequence, -1);
  expected[0] = files.labels[0], expected[3] = further;
  expected[7] = files.labels[4], expected[9] = expected[11] = further;
  EXPECT_EQ(row.targets, expected);
  EXPECT_EQ(row.begins[8], 7);
  EXPECT_EQ(row.ends[8], 9);
  dataset.validation_window(1, row.view());
  expected.assign(kRowsOfSequence, -1);
  expected[0] = files.labels[2], expected[kRowsOfSequence / 2] = further;
  EXPECT_EQ(row.targets, expected);
  EXPECT_EQ(row.tokens[kRowsOfSequence / 2 - 1], 46);
  EXPECT_EQ(row.tokens[kRowsOfSequence / 2], 47);
}

TEST(DocumentDataset, RefusesQuestionsInParts) {
  const Data data;
  DatasetSettings with = settings(SampleKind::packed);
  with.head = models::HeadKind::choice;
  with.causal = false;
  DataFiles files = documents(data, {3, 4, 2});
  for (const auto& labels : {std::vector{choice_target(2, 1), kFurtherChoice, choice_target(2, 0)},
                             std::vector{kFurtherChoice, choice_target(2, 1), kFurtherChoice}}) {
    files.labels = labels;
    EXPECT_SAYS(bad_input([&] { DocumentDataset(files, with); }), "not those of whole questions");
  }
}

TEST(DocumentDataset, RefusesWhatHasNoDocuments) {
  const Data data;
  data.write_counting("ids.bin", 50);
  EXPECT_SAYS(
      bad_input([&] { DocumentDataset(data.find({"ids.bin"}, TokenFormat::tokens), settings(SampleKind::packed)); }),
      "has no documents");
  EXPECT_SAYS(bad_input([&] {
                DocumentDataset(documents(data, {1, 1}), settings(SampleKind::packed));
              }),
              "no document with a token to predict");
}

// A run that stops and goes on at any step visits each sample once an epoch: the order is a function of the position.
TEST(Permutation, AMillionResumptionsKeepIt) {
  constexpr std::uint64_t kSamples = 1'000'003;
  std::vector<bool> seen(kSamples, false);
  for (std::uint64_t position = 0; position < kSamples; ++position) {
    const std::uint64_t sample = permute(position, kSamples, 11, 4);
    ASSERT_LT(sample, kSamples);
    ASSERT_FALSE(seen[sample]) << position;
    seen[sample] = true;
  }
  // Of 10^9 samples, which no table holds: a hundred thousand of them are different.
  std::mt19937_64 random(2);
  std::set<std::uint64_t> positions, samples;
  while (positions.size() < 100'000) positions.insert(random() % 1'000'000'000);
  for (const std::uint64_t position : positions) samples.insert(permute(position, 1'000'000'000, 11, 4));
  EXPECT_EQ(samples.size(), positions.size());
  EXPECT_LT(*samples.rbegin(), 1'000'000'000u);
}

}  // namespace
}  // namespace l2l::runtime

// Against the numbers of scikit-learn 1.9, scipy 1.17 and seqeval 1.2.2 for the same lists.
#include "runtime/task_metrics.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace l2l::runtime {
namespace {

using Classes = std::vector<std::int32_t>;
using models::HeadKind;

// clang-format off
const Classes kBinary = {1, 1, 0, 1, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0};
const Classes kBinaryPredicted = {0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1};
// Classes 0 to 4, of which 3 never occurs.
const Classes kFive = {2, 4, 0, 4, 2, 4, 0, 4, 0, 1, 1, 0, 1, 4, 2, 2, 2, 4, 0, 2, 2, 0, 4, 0, 1, 2, 2, 1, 2, 2};
const Classes kFivePredicted = {2, 4, 1, 4, 2, 4, 1, 4, 0, 2, 0, 0, 1, 1, 0, 2, 0, 1, 0, 2, 2, 1, 4, 0, 1, 1, 2, 2, 2, 2};
const std::vector<float> kNumbers = {0.0f, 1.5f, 0.0f, -1.5f, -0.5f, -2.0f, -0.5f, 3.0f, 3.0f, 1.0f, 0.0f, -1.0f, -2.5f, -1.5f, 1.5f, 2.0f, -1.0f, 1.5f, 1.5f, 1.0f};
const std::vector<float> kScores = {0.5f, 2.5f, -0.5f, -0.5f, -1.5f, -2.0f, 0.5f, 4.0f, 2.0f, 3.0f, 0.5f, -0.5f, -4.5f, -1.5f, 0.5f, 2.5f, -1.0f, 3.0f, 2.0f, 2.0f};
// Six sequences of twelve tags.
const Classes kTags = {2, 2, 2, 3, 2, 1, 3, 2, 2, 4, 1, 4, 1, 1, 2, 3, 2, 0, 3, 1, 4, 4, 4, 3, 2, 4, 4, 2, 0, 1, 1, 4, 3, 4, 1, 1, 1, 0, 3, 1, 1, 0, 1, 0, 2, 1, 3, 1, 4, 0, 3, 3, 2, 3, 4, 0, 4, 1, 1, 2, 0, 2, 3, 2, 3, 0, 4, 2, 0, 4, 4, 2};
const Classes kTagsPredicted = {2, 2, 2, 3, 1, 1, 4, 2, 2, 4, 1, 1, 1, 1, 0, 3, 2, 4, 3, 1, 3, 4, 3, 3, 3, 4, 1, 2, 0, 3, 1, 4, 2, 4, 1, 1, 1, 0, 3, 1, 3, 0, 1, 0, 0, 1, 3, 1, 2, 0, 4, 3, 2, 0, 4, 0, 4, 4, 1, 2, 0, 2, 4, 2, 3, 0, 4, 2, 0, 4, 4, 4};
// Five sequences of twelve tags of IOBES.
const Classes kLongTags = {6, 8, 6, 5, 6, 7, 5, 5, 7, 6, 8, 2, 3, 6, 0, 7, 7, 6, 4, 7, 6, 8, 5, 0, 7, 5, 5, 5, 6, 6, 6, 7, 0, 5, 7, 5, 2, 0, 1, 2, 2, 2, 2, 0, 4, 1, 2, 0, 6, 6, 6, 0, 6, 5, 6, 6, 5, 6, 0, 6};
const Classes kLongTagsPredicted = {6, 8, 6, 5, 6, 7, 5, 5, 3, 3, 8, 2, 3, 6, 0, 7, 0, 5, 8, 7, 8, 8, 5, 0, 2, 5, 5, 5, 6, 6, 6, 7, 0, 5, 7, 5, 0, 0, 1, 2, 2, 2, 2, 7, 4, 8, 2, 0, 6, 8, 8, 4, 3, 2, 6, 6, 5, 6, 0, 6};
// clang-format on
const std::vector<std::string> kLongNames = {"O",     "B-PER", "I-PER", "E-PER", "S-PER",
                                             "B-LOC", "I-LOC", "E-LOC", "S-LOC"};
const std::vector<std::string> kNames = {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"};

TEST(TaskMetrics, OfTwoClassesAreThoseOfScikitLearn) {
  EXPECT_NEAR(accuracy(kBinaryPredicted, kBinary), 0.7333333333333333, 1e-12);
  EXPECT_NEAR(f1(kBinaryPredicted, kBinary, 2), 0.6363636363636364, 1e-12);
  EXPECT_NEAR(matthews(kBinaryPredicted, kBinary, 2), 0.4330127018922193, 1e-12);
}

TEST(TaskMetrics, OfManyClassesAreThoseOfScikitLearn) {
  EXPECT_NEAR(accuracy(kFivePredicted, kFive), 0.6333333333333333, 1e-12);
  EXPECT_NEAR(f1(kFivePredicted, kFive, 5), 0.6185897435897436, 1e-12);
  EXPECT_NEAR(matthews(kFivePredicted, kFive, 5), 0.5098687127023622, 1e-12);
}

TEST(TaskMetrics, WithoutARightAnswerOrASecondClassAreZero) {
  EXPECT_EQ(f1(Classes{0, 0}, Classes{1, 1}, 2), 0);
  EXPECT_EQ(matthews(Classes{0, 0}, Classes{0, 1}, 2), 0);
}

TEST(TaskMetrics, CorrelationsAreThoseOfScipyTiesIncluded) {
  EXPECT_NEAR(pearson(kScores, kNumbers), 0.894630761265665, 1e-12);
  EXPECT_NEAR(spearman(kScores, kNumbers), 0.8797712486951159, 1e-12);
  EXPECT_TRUE(std::isnan(pearson(kScores, std::vector<float>(kScores.size(), 2.0f))));
}

TEST(TaskMetrics, CorrelationsWithANanAreNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::size_t place : {std::size_t{0}, kScores.size() / 2, kScores.size() - 1}) {
    std::vector<float> scores = kScores;
    scores[place] = nan;
    for (const auto& correlation : {pearson, spearman}) {
      EXPECT_TRUE(std::isnan(correlation(scores, kNumbers))) << place;
      EXPECT_TRUE(std::isnan(correlation(kNumbers, scores))) << place;
    }
  }
}

TEST(TaskMetrics, EntitiesAreThoseOfSeqeval) {
  TagSequences tags{{0, 12, 24, 36, 48, 60}, kTagsPredicted, kTags};
  EXPECT_NEAR(entity_f1(tags, kNames), 0.693069306930693, 1e-12);
  // Negative control: without ends of sequences, entities run on into the next one.
  tags.begins = {0};
  EXPECT_GT(std::abs(entity_f1(tags, kNames) - 0.693069306930693), 1e-6);
}

TEST(TaskMetrics, EntitiesOfIobesAreThoseOfSeqeval) {
  EXPECT_NEAR(entity_f1({{0, 12, 24, 36, 48}, kLongTagsPredicted, kLongTags}, kLongNames), 0.6575342465753424, 1e-12);
}

TEST(TaskMetrics, OfWordsHaveAnF1WhereTagsMarkEntities) {
  const auto names_of = [](const std::vector<std::string>& tags) {
    TaskMetrics task(HeadKind::tokens, static_cast<std::int64_t>(tags.size()), tags);
    const float logits[] = {0, 1};
    task.add(logits, 1, /*begins=*/true);
    std::vector<std::string> names;
    for (const auto& [name, value] : task.metrics()) names.push_back(name);
    return names;
  };
  using Names = std::vector<std::string>;
  for (const Names& tags : {Names{"O", "B-PER"}, Names{"I-PER", "O"}, Names{"S-PER", "E-PER"}}) {
    EXPECT_EQ(names_of(tags), (Names{"accuracy", "f1"})) << tags[0];
  }
  for (const Names& tags : {Names{}, Names{"DET", "PRT"}, Names{"O", "B-"}, Names{"O", "PER"}, Names{"", "B-PER"},
                            Names{"OTHER", "B-PER"}, Names{"O", "U-PER"}}) {
    EXPECT_EQ(names_of(tags), Names{"accuracy"}) << (tags.empty() ? "" : tags[0] + ", " + tags[1]);
  }
}

TEST(TaskMetrics, AreCollectedRowByRow) {
  const auto add = [](TaskMetrics& task, float score, std::int32_t target) {
    const float logits[] = {-score, score};
    task.add(logits, target, /*begins=*/true);
  };
  TaskMetrics task(HeadKind::classification, 2, {});
  EXPECT_TRUE(task.metrics().empty());
  for (std::size_t i = 0; i < kBinary.size(); ++i) add(task, kBinaryPredicted[i] == 1 ? 0.5f : -0.5f, kBinary[i]);
  const NamedMetrics metrics = task.metrics();
  ASSERT_EQ(metrics.size(), 3u);
  EXPECT_EQ(metrics[1].first, "f1");
  EXPECT_NEAR(metrics[1].second, 0.6363636363636364, 1e-12);
  TaskMetrics numbers(HeadKind::regression, 1, {});
  for (std::size_t i = 0; i < kNumbers.size(); ++i) {
    numbers.add(std::span(&kScores[i], 1), std::bit_cast<std::int32_t>(kNumbers[i]), /*begins=*/true);
  }
  EXPECT_EQ(numbers.metrics()[0].first, "pearson");
  EXPECT_NEAR(numbers.metrics()[1].second, 0.8797712486951159, 1e-12);
}

}  // namespace
}  // namespace l2l::runtime

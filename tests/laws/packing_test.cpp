// Documents that share a sequence do not see each other: their gradients are those of each of them alone.
#include <gtest/gtest.h>

#include "tests/laws/packing.h"

namespace l2l::packing_law {
namespace {

using testing::difference;
using testing::gradients_alone;
using testing::gradients_packed;
using testing::kPackedSequence;
using testing::packing_options;

constexpr double kTolerance = 1e-5;  // relative L2 of every gradient

class Packing : public ::testing::TestWithParam<const char*> {};

TEST_P(Packing, HasTheGradientsOfTheDocumentsAlone) {
  const testing::Gradients alone = gradients_alone(GetParam(), [](Options&) {});
  for (const char* const attention : {"fused", "core"}) {
    Options options = packing_options(GetParam(), kPackedSequence, /*packed=*/true);
    options.model.attention = attention;
    EXPECT_LE(difference(gradients_packed(options), alone), kTolerance) << attention;
  }
}

TEST_P(Packing, TheTableInChunksIsTheSameModel) {
  Options options = packing_options(GetParam(), kPackedSequence, /*packed=*/true);
  const testing::Gradients whole = gradients_packed(options);
  options.transfer.vocabulary_chunk = 24;
  EXPECT_LE(difference(gradients_packed(options), whole), kTolerance);
}

// A document that begins one row early sees a row of the one before it.
TEST_P(Packing, ALeakOfOneRowIsNoticed) {
  const Options options = packing_options(GetParam(), kPackedSequence, /*packed=*/true);
  const testing::Gradients leaking = gradients_packed(options, 0, [](const runtime::SequenceView& sequence) {
    for (std::size_t row = 7; row < 20; ++row) sequence.begins[row] = 6;
  });
  EXPECT_GT(difference(leaking, gradients_packed(options)), 100 * kTolerance);
}

// So is a position that counts on from the document before.
TEST_P(Packing, ASharedPositionIsNoticed) {
  const Options options = packing_options(GetParam(), kPackedSequence, /*packed=*/true);
  const testing::Gradients shifted = gradients_packed(options, 0, [](const runtime::SequenceView& sequence) {
    for (std::size_t row = 13; row < 20; ++row) ++sequence.positions[row];
  });
  EXPECT_GT(difference(shifted, gradients_packed(options)), 100 * kTolerance);
}

TEST_P(Packing, WhatStandsInPaddingChangesNoBit) {
  const Options options = packing_options(GetParam(), kPackedSequence, /*packed=*/true);
  testing::Gradients first = gradients_packed(options, 0), second = gradients_packed(options, 33);
  EXPECT_EQ(first, second);
}

TEST_P(Packing, ALongerSequenceHasTheSameGradients) {
  Options longer = packing_options(GetParam(), kPackedSequence + 24, /*packed=*/true);
  longer.model.positions += 24;
  testing::Gradients large = gradients_packed(longer);
  const testing::Gradients small = gradients_packed(packing_options(GetParam(), kPackedSequence, /*packed=*/true));
  for (auto& [name, values] : large) values.resize(small.at(name).size());  // of the position table
  EXPECT_LE(difference(large, small), 1e-6);
}

// Where the token type follows from the position, the gradient of a type is that of its positions, summed.
TEST(TokenTypes, HaveTheGradientsOfTheirRows) {
  constexpr std::size_t kFirstOfSecond = 5, kHidden = 24;
  const Options options = packing_options("bert", kPackedSequence, /*packed=*/true);
  testing::Gradients gradients = gradients_packed(options, 0, [](const runtime::SequenceView& sequence) {
    for (std::size_t row = 0; row < sequence.positions.size(); ++row) {
      sequence.token_types[row] = sequence.positions[row] >= static_cast<std::int32_t>(kFirstOfSecond) ? 1 : 0;
    }
  });
  const std::vector<float>& positions = gradients.at("bert.embeddings.position_embeddings.weight");
  const std::vector<float>& types = gradients.at("bert.embeddings.token_type_embeddings.weight");
  std::vector<float> sums(2 * kHidden);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    sums[(i / kHidden >= kFirstOfSecond ? kHidden : 0) + i % kHidden] += positions[i];
  }
  EXPECT_LE(difference({{"types", types}}, {{"types", sums}}), kTolerance);
  EXPECT_GT(testing::norm_of({types.begin() + kHidden, types.end()}), 0.1 * testing::norm_of(types));
}

INSTANTIATE_TEST_SUITE_P(All, Packing,
                         ::testing::Values("gpt2", "bert", "roberta", "llama", "mistral", "qwen2", "qwen3", "gemma2",
                                           "gemma3"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace l2l::packing_law

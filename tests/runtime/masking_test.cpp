#include "runtime/data/masking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tests/runtime/test_data.h"

namespace l2l::runtime {
namespace {

using namespace test;

// Over tokens that are their own index.
constexpr std::int32_t kMask = 60000;
constexpr std::int64_t kSequence = 40;

Dataset masked(const Data& data, std::uint16_t tokens, std::uint64_t seed = 1) {
  data.write_counting("counting.bin", tokens);
  return Dataset(data.find({"counting.bin"}, TokenFormat::tokens), {kSequence, 65536, seed, {0.15, kMask, 65536}});
}

std::int32_t original(const Window& window, std::size_t i) {
  return window.targets[i] >= 0 ? window.targets[i] : window.tokens[i];
}

TEST(Masking, PredictsTheShareAndKeepsTheRest) {
  const Data data;
  const Dataset dataset = masked(data, 4001);
  std::set<std::int32_t> seen;
  for (std::uint64_t position = 0; position < dataset.samples_per_epoch(); ++position) {
    const Window window = sample(dataset, position, kSequence);
    for (std::size_t i = 0; i < kSequence; ++i) {
      EXPECT_EQ(original(window, i), original(window, 0) + static_cast<std::int32_t>(i));
      EXPECT_TRUE(seen.insert(original(window, i)).second);
    }
    EXPECT_EQ(std::count(window.targets.begin(), window.targets.end(), -1), kSequence - 6);
  }
}

// Of 6 x 4000 predicted tokens: 80% masked, 10% replaced, 10% kept, all places equally likely; five standard
// deviations.
TEST(Masking, HasTheSharesOfDevlinEtAl) {
  const Data data;
  const Dataset dataset = masked(data, 4001);
  constexpr double kSamples = 4000, kPredicted = 6 * kSamples;
  double masks = 0, kept = 0;
  std::vector<double> places(kSequence);
  for (std::uint64_t position = 0; position < kSamples; ++position) {
    const Window window = sample(dataset, position, kSequence);
    for (std::size_t i = 0; i < kSequence; ++i) {
      if (window.targets[i] < 0) continue;
      ++places[i];
      masks += window.tokens[i] == kMask;
      kept += window.tokens[i] == window.targets[i];
      EXPECT_LT(window.tokens[i], 65536);
    }
  }
  const auto within = [](double count, double trials, double p) {
    EXPECT_NEAR(count, trials * p, 5 * std::sqrt(trials * p * (1 - p)));
  };
  within(masks, kPredicted, 0.8);
  within(kept, kPredicted, 0.1);
  for (const double place : places) within(place, kSamples, 0.15);
}

TEST(Masking, IsAFunctionOfSeedAndPositionAlone) {
  const Data data;
  const Dataset dataset = masked(data, 4001), same = masked(data, 4001), other = masked(data, 4001, 2);
  const std::uint64_t epoch = dataset.samples_per_epoch();
  int equal = 0;
  for (std::uint64_t position = 0; position < epoch; ++position) {
    const Window window = sample(dataset, position, kSequence), again = sample(same, position, kSequence);
    EXPECT_EQ(window.tokens, again.tokens);
    EXPECT_EQ(window.targets, again.targets);
    equal += window.targets == sample(other, position, kSequence).targets;
    equal += window.targets == sample(dataset, position + epoch, kSequence).targets;
  }
  EXPECT_EQ(equal, 0);
}

TEST(Masking, ValidationCoversTheStreamAndStaysTheSame) {
  const Data data;
  for (const std::uint16_t tokens : {30, 41, 100, 4001}) {
    const Dataset dataset = masked(data, tokens);
    std::set<std::int32_t> seen;
    Window window{std::vector<std::int32_t>(kSequence), std::vector<std::int32_t>(kSequence)};
    for (std::uint64_t w = 0; w < dataset.windows(); ++w) {
      dataset.validation_window(w, {window.tokens, window.targets});
      const std::int64_t count = std::min<std::int64_t>(tokens, kSequence);
      EXPECT_EQ(std::count_if(window.targets.begin(), window.targets.end(), [](auto t) { return t >= 0; }),
                tokens < kSequence ? 5 : 6);
      for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) seen.insert(original(window, i));
      Window again = window;
      dataset.validation_window(w, {again.tokens, again.targets});
      EXPECT_EQ(again.tokens, window.tokens);
    }
    EXPECT_GE(seen.size() + 1, tokens);
    dataset.validation_window(dataset.windows(), {window.tokens, window.targets});
    EXPECT_EQ(std::count(window.targets.begin(), window.targets.end(), -1), kSequence);
  }
}

TEST(Masking, NeverReplacesByTheMask) {
  const Masking three{1, 1, 3};
  std::map<std::int32_t, int> replaced;
  for (std::uint32_t key = 0; key < 200; ++key) {
    std::vector<std::int32_t> tokens(50, 0), targets(50);
    mask_tokens(three, {key, 0, 0, 0, 0}, tokens, targets);
    for (const std::int32_t token : tokens) ++replaced[token];
  }
  EXPECT_EQ(replaced.size(), 3u);
  EXPECT_NEAR(replaced[1], 8000, 200);  // masks only
  EXPECT_NEAR(replaced[2], 500, 110);   // half of the replacements
  EXPECT_NEAR(replaced[0], 1500, 180);  // the other half, and what is kept
}

}  // namespace
}  // namespace l2l::runtime

#include "runtime/data/buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace l2l::runtime {
namespace {

using Lengths = std::vector<std::int64_t>;

std::vector<std::uint64_t> random_samples(std::size_t longest, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint64_t> samples(longest + 1);
  for (int i = 0; i < 500; ++i) ++samples[random() % (longest + 1) * (random() % (longest + 1)) / longest];
  return samples;
}

std::uint64_t rows_spent(const std::vector<std::uint64_t>& samples, const Lengths& lengths) {
  std::uint64_t sum = 0;
  for (std::size_t rows = 0; rows < samples.size(); ++rows) {
    const auto length = std::lower_bound(lengths.begin(), lengths.end(), static_cast<std::int64_t>(rows));
    sum += samples[rows] * static_cast<std::uint64_t>(*length);
  }
  return sum;
}

TEST(ChooseLengths, AreWithinTwoHundredthsOfTheBestOfAllSets) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const std::vector<std::uint64_t> samples = random_samples(60, seed);
    std::uint64_t best = ~std::uint64_t{0};
    for (unsigned set = 0; set < 128; ++set) {  // of 8, 16, ... 56
      if (__builtin_popcount(set) > 2) continue;
      Lengths lengths;
      for (unsigned i = 0; i < 7; ++i) {
        if ((set >> i & 1) != 0) lengths.push_back(8 * (i + 1));
      }
      lengths.push_back(60);
      best = std::min(best, rows_spent(samples, lengths));
    }
    const Lengths chosen = choose_lengths(samples, 3);
    EXPECT_LE(chosen.size(), 3u);
    EXPECT_EQ(chosen.back(), 60);
    EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
    EXPECT_LE(static_cast<double>(rows_spent(samples, chosen)), 1.02 * static_cast<double>(best)) << seed;
  }
}

TEST(ChooseLengths, AreNoMoreThanMatter) {
  std::vector<std::uint64_t> samples(513);
  EXPECT_EQ(choose_lengths(samples, 8), Lengths{512});
  samples[512] = 100;
  EXPECT_EQ(choose_lengths(samples, 8), Lengths{512});
  samples[60] = 100;
  EXPECT_EQ(choose_lengths(samples, 8), (Lengths{64, 512}));
  EXPECT_EQ(choose_lengths(samples, 1), Lengths{512});
  EXPECT_EQ(choose_lengths(std::vector<std::uint64_t>(2, 1), 8), Lengths{1});
}

TEST(DealSamples, EachSampleOnceInAMicrobatchThatHoldsIt) {
  std::mt19937 random(1);
  const Lengths lengths{16, 24, 64};
  for (const int devices : {1, 2, 4}) {
    Lengths rows(24);
    for (std::int64_t& its : rows) its = static_cast<std::int64_t>(random() % 65);
    const Deal deal = deal_samples(rows, lengths, 3, devices, 0);
    std::vector<int> seen = deal.sample_of;
    std::sort(seen.begin(), seen.end());
    std::vector<int> all(rows.size());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(seen, all);
    std::vector<std::int64_t> of_device(static_cast<std::size_t>(devices));
    for (std::size_t u = 0; u < deal.length_of.size(); ++u) {
      std::int64_t longest = 0;
      for (std::size_t i = 0; i < 3; ++i) {
        longest = std::max(longest, rows[static_cast<std::size_t>(deal.sample_of[3 * u + i])]);
      }
      const auto length = static_cast<std::size_t>(deal.length_of[u]);
      EXPECT_LE(longest, lengths[length]);
      EXPECT_GT(longest, length > 0 ? lengths[length - 1] : -1);
      of_device[u * static_cast<std::size_t>(devices) / deal.length_of.size()] += lengths[length];
    }
    const auto [least, most] = std::minmax_element(of_device.begin(), of_device.end());
    EXPECT_LE(*most - *least, lengths.back()) << devices << " devices";
  }
}

// The bits of a run with parts depend on the deal.
TEST(DealSamples, WithPartsIsTheSameForAnyNumberOfDevicesAndFairToEach) {
  Lengths rows(32);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i * 13 % 32) + 1;
  const Lengths lengths{8, 16, 24, 32};
  const Deal one = deal_samples(rows, lengths, 1, 1, 8);
  for (const int devices : {1, 2, 4, 8}) {
    const Deal deal = deal_samples(rows, lengths, 1, devices, 8);
    EXPECT_EQ(deal.sample_of, one.sample_of) << devices;
    EXPECT_EQ(deal.length_of, one.length_of) << devices;
    std::vector<std::int64_t> of_device(static_cast<std::size_t>(devices));
    for (std::size_t u = 0; u < deal.length_of.size(); ++u) {
      of_device[u * static_cast<std::size_t>(devices) / deal.length_of.size()] +=
          lengths[static_cast<std::size_t>(deal.length_of[u])];
    }
    const auto [least, most] = std::minmax_element(of_device.begin(), of_device.end());
    EXPECT_LE(*most - *least, lengths.back()) << devices << " devices";
  }
  EXPECT_NE(deal_samples(rows, lengths, 1, 2, 0).sample_of, deal_samples(rows, lengths, 1, 4, 0).sample_of);
}

TEST(DealSamples, OfEqualLengthKeepTheirOrder) {
  const Deal deal = deal_samples(Lengths{9, 20, 9, 20, 9, 9}, Lengths{16, 32}, 2, 1, 0);
  EXPECT_EQ(deal.sample_of, (std::vector<int>{1, 3, 0, 2, 4, 5}));
  EXPECT_EQ(deal.length_of, (std::vector<int>{1, 0, 0}));
}

}  // namespace
}  // namespace l2l::runtime

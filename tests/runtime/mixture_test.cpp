#include "runtime/data/mixture.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/runtime/test_data.h"

namespace l2l::runtime {
namespace {

using namespace test;

// Sources whose samples are known by their tokens.
Mixture mixture(const Data& data, const std::vector<double>& weights, std::uint64_t seed = 1) {
  std::vector<std::unique_ptr<Samples>> sources;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::string name = "source" + std::to_string(i);
    data.write_counting(name, static_cast<std::uint16_t>(100 + 50 * i));
    sources.push_back(std::make_unique<Dataset>(data.find({name}, TokenFormat::tokens), DatasetSettings{4, 65536, 1}));
  }
  return Mixture(std::move(sources), weights, seed);
}

TEST(Mixture, EachBlockHasTheShares) {
  const Data data;
  const Mixture mixed = mixture(data, {1, 2.5, 0.00001});
  for (const std::uint64_t block : {0u, 7u}) {
    std::vector<std::uint64_t> counts(3, 0);
    for (std::uint64_t i = 0; i < Mixture::kBlock; ++i) ++counts[mixed.place(block * Mixture::kBlock + i).source];
    EXPECT_EQ(counts, (std::vector<std::uint64_t>{2857, 7142, 1}));
  }
}

// A source's samples come in its own order, none left out.
TEST(Mixture, ASourceGoesOnWhereItWas) {
  const Data data;
  const Mixture mixed = mixture(data, {3, 1, 2});
  std::vector<std::uint64_t> next(3, 0);
  for (std::uint64_t position = 0; position < 3 * Mixture::kBlock; ++position) {
    const Mixture::Place place = mixed.place(position);
    ASSERT_EQ(place.position, next[place.source]++) << position;
  }
}

TEST(Mixture, IsMixedWithinABlockAndBySeed) {
  const Data data;
  const Mixture mixed = mixture(data, {1, 1}), other = mixture(data, {1, 1}, 2);
  std::uint64_t changes = 0, different = 0;
  for (std::uint64_t position = 1; position < Mixture::kBlock; ++position) {
    changes += mixed.place(position).source != mixed.place(position - 1).source;
    different += mixed.place(position).source != other.place(position).source;
  }
  EXPECT_GT(changes, Mixture::kBlock * 45 / 100);
  EXPECT_LT(changes, Mixture::kBlock * 55 / 100);
  EXPECT_GT(different, Mixture::kBlock * 45 / 100);
}

TEST(Mixture, DrawsTheSamplesOfItsSources) {
  const Data data;
  const Mixture mixed = mixture(data, {1, 1});
  data.write_counting("alone", 150);
  const Dataset second(data.find({"alone"}, TokenFormat::tokens), {4, 65536, 1});
  for (std::uint64_t position = 0; position < 100; ++position) {
    const Mixture::Place place = mixed.place(position);
    if (place.source != 1) continue;
    Window window{std::vector<std::int32_t>(4), std::vector<std::int32_t>(4)};
    mixed.sample(position, {window.tokens, window.targets});
    EXPECT_EQ(window.tokens, sample(second, place.position, 4).tokens);
  }
  EXPECT_GE(mixed.samples_per_epoch(), 2 * second.samples_per_epoch());
}

}  // namespace
}  // namespace l2l::runtime

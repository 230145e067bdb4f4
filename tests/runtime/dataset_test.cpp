#include "runtime/data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "l2l/errors.h"
#include "runtime/data/permutation.h"
#include "tests/runtime/test_data.h"

namespace l2l::runtime {
namespace {

using namespace test;

std::vector<std::string> names(const DataFiles& data) {
  std::vector<std::string> result;
  for (const DataFile& file : data.files) result.push_back(file.path.filename().string());
  return result;
}

Dataset counting(const Data& data, std::uint16_t tokens, std::int64_t sequence, std::uint64_t seed = 1) {
  data.write_counting("counting.bin", tokens);
  return Dataset(data.find({"counting.bin"}, TokenFormat::tokens), {sequence, 65536, seed});
}

TEST(DataFiles, ExpandsGlobsSortedAndEachFileOnce) {
  const Data data;
  for (const char* name : {"b.txt", "a.txt", "B.txt", "sub/c.txt"}) data.write(name, "xy");
  std::filesystem::create_symlink(data.path("a.txt"), data.path("link.txt"));
  const DataFiles found = data.find({"sub/../b.txt", "*.txt", "sub/*", "a.txt"});
  EXPECT_EQ(names(found), (std::vector<std::string>{"b.txt", "B.txt", "a.txt", "c.txt"}));
  EXPECT_EQ(found.tokens(), 4u * 3);
}

TEST(DataFiles, TwoStarsAreFoldersAtAnyDepth) {
  const Data data;
  for (const char* name : {"a.txt", "x/b.txt", "x/y/c.txt", "x/y/d.md", "x/.hidden/e.txt", "[z]/f.txt"})
    data.write(name, "x");
  const auto found = [&](const std::string& pattern) { return names(data.find({pattern})); };
  using Names = std::vector<std::string>;
  EXPECT_EQ(found("**/*.txt"), (Names{"f.txt", "a.txt", "b.txt", "c.txt"}));
  EXPECT_EQ(found("x/**/*.txt"), (Names{"b.txt", "c.txt"}));
  EXPECT_EQ(found("x/**"), (Names{"b.txt", "c.txt", "d.md"}));
  EXPECT_EQ(found("**/y/*"), (Names{"c.txt", "d.md"}));
  EXPECT_EQ(found("**/y/**/c.*"), Names{"c.txt"});
  EXPECT_SAYS(bad_input([&] { data.find({"x/**/*.csv"}); }), "searched in " + data.path("x"));
}

TEST(DataFiles, ANameWithGlobCharactersIsTakenAsItIs) {
  const Data data;
  data.write("a[1].txt", "x");
  EXPECT_EQ(names(data.find({"a[1].txt"})), std::vector<std::string>{"a[1].txt"});
}

TEST(DataFiles, RefusesWhatIsNoData) {
  const Data data;
  data.write("odd.bin", "abc");
  data.write("folder/x.txt", "");
  const auto refuse = [&](const std::string& name, TokenFormat format) {
    return bad_input([&] { data.find({name}, format); });
  };
  EXPECT_SAYS(refuse("none-*.txt", TokenFormat::text), "data.train: no file matches \"" + data.path("none-*.txt"));
  EXPECT_SAYS(refuse("missing.txt", TokenFormat::text), "no file matches");
  EXPECT_SAYS(refuse("folder/none-*.txt", TokenFormat::text), "; searched in " + data.path("folder"));
  EXPECT_SAYS(refuse("nowhere/*.txt", TokenFormat::text), "; there is no folder " + data.path("nowhere"));
  EXPECT_SAYS(refuse("folder", TokenFormat::text),
              "is a directory; name its files: data.train = [\"" + data.path("folder/*.txt") + "\"]");
  data.write("rows/a.jsonl", "");
  EXPECT_SAYS(refuse("rows/", TokenFormat::text),
              "name its files: data.train = [\"" + data.path("rows/*.jsonl") + "\"]");
  EXPECT_SAYS(refuse("odd.bin", TokenFormat::tokens), "odd.bin: 3 bytes");
  EXPECT_SAYS(bad_input([&] { find_data({"/dev/null"}, TokenFormat::text, "data.train"); }), "not a regular file");
  EXPECT_SAYS(bad_input([&] { data.find({}); }), "data.train: names no file");
}

TEST(Dataset, PutsASeparatorBeforeEachDocument) {
  const Data data;
  data.write("1.txt", "ab");
  data.write("2.txt", "");
  data.write("3.txt", std::string("\xff\0z", 3));
  const Dataset dataset(data.find({"*.txt"}), {20, 256, 1});
  EXPECT_EQ(dataset.tokens(), 8u);
  Window window{std::vector<std::int32_t>(20), std::vector<std::int32_t>(20)};
  dataset.validation_window(0, {window.tokens, window.targets});
  EXPECT_EQ(std::vector<std::int32_t>(window.tokens.begin(), window.tokens.begin() + 8),
            (std::vector<std::int32_t>{0, 'a', 'b', 0, 0, 255, 0, 0}));
  EXPECT_EQ(std::vector<std::int32_t>(window.targets.begin(), window.targets.begin() + 8),
            (std::vector<std::int32_t>{'a', 'b', 0, 0, 255, 0, 'z', -1}));
}

TEST(Dataset, ReadsLittleEndianTokens) {
  const Data data;
  data.write("t.bin", std::string("\x01\x00\x00\x01\xff\xff", 6));
  const Dataset dataset(data.find({"t.bin"}, TokenFormat::tokens), {3, 65536, 1});
  Window window{std::vector<std::int32_t>(3), std::vector<std::int32_t>(3)};
  dataset.validation_window(0, {window.tokens, window.targets});
  EXPECT_EQ(window.tokens, (std::vector<std::int32_t>{1, 256, 0}));
  EXPECT_EQ(window.targets, (std::vector<std::int32_t>{256, 65535, -1}));
}

TEST(Dataset, TokensAreCountedBeforeReading) {
  const Data data;
  data.write("a.txt", "hello");
  data.write_counting("t.bin", 10);
  EXPECT_EQ(data.find({"a.txt"}).tokens(), 6u);
  EXPECT_EQ(Dataset(data.find({"a.txt"}), {2, 256, 1}).tokens(), 6u);
  EXPECT_EQ(data.find({"t.bin"}, TokenFormat::tokens).tokens(), 10u);
}

TEST(Dataset, NamesFileAndOffsetOfATokenBeyondTheVocabulary) {
  const Data data;
  data.write_counting("a.bin", 50);
  data.write_counting("b.bin", 101);
  const DataFiles files = data.find({"a.bin", "b.bin"}, TokenFormat::tokens);
  EXPECT_NO_THROW(Dataset(files, {8, 101, 1}));
  const std::string message = bad_input([&] { Dataset(files, {8, 100, 1}); });
  EXPECT_SAYS(message, "b.bin: token 100 at byte 200 is not below model.vocabulary = 100");
  data.write("signed.bin", std::string("\1\0\0\0\x9c\xff\xff\xff", 8));
  const DataFiles wide = data.find({"signed.bin"}, TokenFormat::tokens32);
  EXPECT_SAYS(bad_input([&] {
                Dataset(wide, {1, 100, 1});
              }),
              "signed.bin: token 4294967196 (-100 as a signed number) at byte 4 is not below");
}

// Files are scanned a mebibyte at a time.
TEST(Dataset, NamesTheOffsetOfATokenFarIntoAFile) {
  const Data data;
  std::string bytes(5u << 20, '\0');
  bytes[bytes.size() - 2] = 100;
  data.write("long.bin", bytes);
  const std::string message = bad_input([&] { Dataset(data.find({"long.bin"}, TokenFormat::tokens), {8, 100, 1}); });
  EXPECT_SAYS(message, "long.bin: token 100 at byte 5242878 is not below");
}

TEST(Dataset, RefusesAFileThatChangedSinceItWasMeasured) {
  const Data data;
  data.write("a.txt", "hello");
  const DataFiles files = data.find({"a.txt"});
  for (const char* now : {"hell", "hello!"}) {
    data.write("a.txt", now);
    EXPECT_SAYS(bad_input([&] { Dataset(files, {2, 256, 1}); }), "a.txt: changed while it was read");
  }
  std::filesystem::remove(data.path("a.txt"));
  EXPECT_SAYS(bad_input([&] { Dataset(files, {2, 256, 1}); }), "a.txt: cannot be opened");
}

TEST(Dataset, RefusesTooLittleData) {
  const Data data;
  data.write("a.txt", "1234");  // five tokens
  const DataFiles files = data.find({"a.txt"});
  EXPECT_NO_THROW(Dataset(files, {4, 256, 1}).require_training_data());
  const std::string message = bad_input([&] { Dataset(files, {5, 256, 1}).require_training_data(); });
  EXPECT_SAYS(message, "a.txt): 5 tokens, but model.sequence = 5 needs at least 6");
  data.write("empty.txt", "");
  EXPECT_SAYS(bad_input([&] { Dataset(data.find({"empty.txt"}), {5, 256, 1}); }), "1 tokens; at least 2");
}

TEST(Dataset, TargetsFollowTokens) {
  const Data data;
  const Dataset dataset = counting(data, 1000, 7);
  for (std::uint64_t position = 0; position < 500; ++position) {
    const Window window = sample(dataset, position, 7);
    for (std::size_t i = 0; i < 7; ++i) {
      ASSERT_EQ(window.tokens[i], window.tokens[0] + static_cast<std::int32_t>(i));
      ASSERT_EQ(window.targets[i], window.tokens[i] + 1);
      ASSERT_LT(window.targets[i], 1000);
    }
  }
}

// Counts how often each window of an epoch is visited. `order` stands for the order under test.
template <typename Order>
bool visits_each_window_once(std::uint64_t windows, Order order) {
  std::vector<int> visits(windows, 0);
  for (std::uint64_t i = 0; i < windows; ++i) {
    const std::uint64_t window = order(i);
    if (window >= windows) return false;
    ++visits[window];
  }
  return std::all_of(visits.begin(), visits.end(), [](int count) { return count == 1; });
}

TEST(Dataset, EveryEpochVisitsEveryWindowOnceFromOnePhase) {
  const Data data;
  for (const std::uint16_t tokens : {9, 10, 15, 16, 17, 23, 24, 25, 100, 1003}) {
    constexpr std::uint64_t kSequence = 8;
    const Dataset dataset = counting(data, tokens, kSequence);
    const std::uint64_t per_epoch = dataset.samples_per_epoch();
    ASSERT_GE(per_epoch, 1u);
    EXPECT_GE(per_epoch, std::max<std::uint64_t>(1, (tokens - 1) / kSequence - 1)) << "at most one window is left out";
    for (std::uint64_t epoch = 0; epoch < 40; ++epoch) {
      std::vector<std::uint64_t> begins;
      for (std::uint64_t i = 0; i < per_epoch; ++i) {
        begins.push_back(static_cast<std::uint64_t>(sample(dataset, epoch * per_epoch + i, kSequence).tokens[0]));
      }
      const std::uint64_t phase = *std::min_element(begins.begin(), begins.end());
      ASSERT_LT(phase, kSequence);
      ASSERT_LT(phase + per_epoch * kSequence, tokens);
      EXPECT_TRUE(visits_each_window_once(per_epoch, [&](std::uint64_t i) { return (begins[i] - phase) / kSequence; }));
    }
  }
}

TEST(Dataset, InOrderEveryEpochHasAllWholeWindows) {
  const Data data;
  for (const std::uint16_t tokens : {9, 16, 17, 24, 25, 100, 1001}) {
    constexpr std::uint64_t kSequence = 8;
    data.write_counting("counting.bin", tokens);
    DatasetSettings settings{kSequence, 65536, 1};
    settings.in_order = true;
    const Dataset dataset(data.find({"counting.bin"}, TokenFormat::tokens), settings);
    const std::uint64_t per_epoch = dataset.samples_per_epoch();
    EXPECT_EQ(per_epoch, (tokens - 1) / kSequence);
    for (std::uint64_t position = 0; position < 3 * per_epoch; ++position) {
      const Window window = sample(dataset, position, kSequence);
      ASSERT_EQ(window.tokens[0], static_cast<std::int32_t>(position % per_epoch * kSequence));
      ASSERT_EQ(window.targets.back(), window.tokens[0] + static_cast<std::int32_t>(kSequence));
    }
  }
}

TEST(Dataset, ABrokenOrderIsCaught) {
  // Negative control: drawing with replacement.
  EXPECT_FALSE(visits_each_window_once(100, [](std::uint64_t i) {
    return philox({1, 0, 0, 0, 0}, static_cast<std::uint32_t>(i))[0] % 100;
  }));
}

TEST(Dataset, EpochsDifferInPhaseAndOrderAndSeedsDiffer) {
  const Data data;
  const Dataset dataset = counting(data, 5000, 16, 1), other = counting(data, 5000, 16, 2);
  const std::uint64_t per_epoch = dataset.samples_per_epoch();
  std::set<std::int32_t> phases;
  std::set<std::vector<std::int32_t>> orders;
  for (std::uint64_t epoch = 0; epoch < 64; ++epoch) {
    std::vector<std::int32_t> begins;
    for (std::uint64_t i = 0; i < per_epoch; ++i)
      begins.push_back(sample(dataset, epoch * per_epoch + i, 16).tokens[0]);
    phases.insert(*std::min_element(begins.begin(), begins.end()));
    orders.insert(begins);
  }
  EXPECT_GT(phases.size(), 12u) << "of 16";
  EXPECT_EQ(orders.size(), 64u);
  EXPECT_NE(sample(dataset, 0, 16).tokens, sample(other, 0, 16).tokens);
}

TEST(Dataset, SamplesAreAPureFunctionOfPosition) {
  const Data data;
  const Dataset dataset = counting(data, 3000, 5), again = counting(data, 3000, 5);
  std::map<std::uint64_t, std::vector<std::int32_t>> forward;
  for (std::uint64_t position = 0; position < 2000; ++position) forward[position] = sample(dataset, position, 5).tokens;
  for (std::uint64_t position = 2000; position-- > 0;) ASSERT_EQ(sample(again, position, 5).tokens, forward[position]);
}

TEST(Dataset, ValidationPredictsEveryTokenButTheFirstOnce) {
  const Data data;
  for (const std::uint16_t tokens : {2, 8, 9, 10, 16, 17, 100}) {
    const Dataset dataset = counting(data, tokens, 8);
    std::vector<int> predicted(tokens, 0);
    for (std::uint64_t i = 0; i < dataset.windows(); ++i) {
      Window window{std::vector<std::int32_t>(8, -7), std::vector<std::int32_t>(8, -7)};
      dataset.validation_window(i, {window.tokens, window.targets});
      for (std::size_t j = 0; j < 8; ++j) {
        if (window.targets[j] == -1) {
          EXPECT_EQ(window.tokens[j], 0);
          continue;
        }
        EXPECT_EQ(window.targets[j], window.tokens[j] + 1);
        ++predicted[static_cast<std::size_t>(window.targets[j])];
      }
    }
    EXPECT_EQ(predicted[0], 0);
    EXPECT_TRUE(std::all_of(predicted.begin() + 1, predicted.end(), [](int count) { return count == 1; })) << tokens;
    EXPECT_EQ(dataset.predicted(), tokens - 1u);
  }
}

TEST(Permutation, IsOneForEveryCount) {
  for (std::uint64_t count = 1; count <= 300; ++count) {
    EXPECT_TRUE(visits_each_window_once(count, [&](std::uint64_t i) { return permute(i, count, 5, count); })) << count;
  }
  for (const std::uint64_t count : {4095u, 4096u, 4097u, 100'000u}) {
    EXPECT_TRUE(visits_each_window_once(count, [&](std::uint64_t i) { return permute(i, count, 5, 3); })) << count;
  }
}

TEST(Permutation, ReachesHugeCounts) {
  constexpr std::uint64_t kCount = (std::uint64_t{1} << 40) + 12345;
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 1000; ++i) seen.insert(permute(i * 1'000'000'007u % kCount, kCount, 1, 1));
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_GT(*seen.rbegin(), kCount / 2);
}

// A checkpoint's position in the data has a meaning only as long as the order stays as it is. The numbers are those of
// a few lines of Python: Philox4x32-10, six rounds over the smallest power of four of at least 64 that holds `count`.
TEST(Permutation, IsTheOneThatCheckpointsReferTo) {
  const auto first = [](std::uint64_t count) {
    std::vector<std::uint64_t> images;
    for (std::uint64_t i = 0; i < 5; ++i) images.push_back(permute(i, count, 1, 3));
    return images;
  };
  using Images = std::vector<std::uint64_t>;
  EXPECT_EQ(first(10), (Images{5, 9, 6, 7, 1}));
  EXPECT_EQ(first(64), (Images{53, 19, 40, 20, 1}));
  EXPECT_EQ(first(65), (Images{48, 3, 57, 46, 9}));
  EXPECT_EQ(first(100'000), (Images{61445, 15685, 74594, 93830, 23141}));
  EXPECT_EQ(first(1'099'511'640'121), (Images{814855748663, 523825798794, 296799961780, 467497484434, 270305871897}));
}

// Chi-squared over where item `index` of `count` goes in many epochs: 95 degrees of freedom, mean 95, deviation 13.8.
double chi_squared(std::uint64_t index, std::uint64_t count, std::uint64_t epochs) {
  std::vector<double> hits(count, 0);
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) ++hits[permute(index, count, 7, epoch)];
  const double expected = static_cast<double>(epochs) / static_cast<double>(count);
  return std::accumulate(hits.begin(), hits.end(), 0.0,
                         [&](double sum, double hit) { return sum + (hit - expected) * (hit - expected) / expected; });
}

TEST(Permutation, SpreadsEvenlyOverEpochs) {
  for (const std::uint64_t index : {0u, 1u, 50u, 95u}) EXPECT_LT(chi_squared(index, 96, 20'000), 95 + 6 * 13.8);
}

TEST(Permutation, NeighboursDoNotStayNeighbours) {
  int close = 0;
  for (std::uint64_t i = 0; i + 1 < 10'000; ++i) {
    const auto a = static_cast<std::int64_t>(permute(i, 10'000, 1, 0)),
               b = static_cast<std::int64_t>(permute(i + 1, 10'000, 1, 0));
    close += std::abs(a - b) <= 10;
  }
  EXPECT_LT(close, 60) << "20 are expected by chance";
}

}  // namespace
}  // namespace l2l::runtime

// Checkpoints of moments in every format: resumed bit for bit in the same one, converted to another.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "eps/checkpoint/checkpoint_folders.h"
#include "eps/checkpoint/checkpoint_parts.h"
#include "eps/checkpoint/moment_tensors.h"
#include "eps/checkpoint/tensor_list.h"
#include "eps/group_memory.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "tests/eps/small_checkpoint.h"
#include "tests/support/temporary_folder.h"

namespace l2l::eps {
namespace {

using namespace testing;
using ::l2l::testing::TemporaryFolder;
using optimizers::kMomentFormatNames;

StoreOptions options_with(std::string_view moments) {
  StoreOptions options = toy_options();
  options.wire = options.gradients = DType::bf16;
  options.moments = optimizers::parse_moment_formats(moments);
  return options;
}

TEST(CheckpointMoments, AResumedRunEqualsTheUninterruptedOneInEveryFormat) {
  for (const auto& [name, formats] : kMomentFormatNames) {
    const TemporaryFolder folder;
    const StoreOptions options = options_with(name);
    TestRun whole(toy_layout(), options), first(toy_layout(), options), second(toy_layout(), options);
    whole.train(0, 5);
    first.train(0, 3);
    load_checkpoint(save_checkpoint(folder.path(), first.store, {3, 1, 0, ""}, 1), second.store);
    EXPECT_EQ(second.store.state_hash(), first.store.state_hash()) << name;
    second.train(3, 5);
    EXPECT_EQ(second.store.state_hash(), whole.store.state_hash()) << name;
  }
}

TEST(CheckpointMoments, LieInTheirOwnFormat) {
  const struct {
    const char *moments, *first, *second;
    bool scales;
  } cases[] = {{"fp32", "F32", "F32", false},
               {"bf16_first", "BF16", "F32", false},
               {"bf16", "BF16", "BF16", false},
               {"int8", "U8", "U8", true}};
  for (const auto& c : cases) {
    const TemporaryFolder folder;
    TestRun run(toy_layout(), options_with(c.moments));
    run.train(0, 1);
    const fs::path saved = save_checkpoint(folder.path(), run.store, {1, 1, 0, ""}, 1);
    const formats::SafetensorsFile file(saved / kOptimizerName);
    const CheckpointSize size = checkpoint_size(toy_layout(), state_types(run.options), /*without_frozen=*/false);
    EXPECT_EQ(size.model, fs::file_size(saved / kModelName));
    EXPECT_EQ(size.optimizer, fs::file_size(saved / kOptimizerName));
    EXPECT_EQ(file.find("wte.weight.moment1")->dtype, c.first);
    EXPECT_EQ(file.find("wte.weight.moment2")->dtype, c.second);
    EXPECT_EQ(file.find("wte.weight.moment1.scales") != nullptr, c.scales);
    EXPECT_EQ(file.find("wte.weight.moment2.scales") != nullptr, c.scales);
  }
}

TEST(CheckpointMoments, APartIsThatPartOfTheWhole) {
  for (const auto& [name, formats] : kMomentFormatNames) {
    TestRun run(toy_layout(), options_with(name));
    run.train(0, 2);
    for (const StatePart moment : {StatePart::moment1, StatePart::moment2}) {
      std::vector<float> whole(41 * 15);
      run.store.read(kTable, 0, moment, 0, whole);
      for (const auto& [first, count] : {std::pair<std::size_t, std::size_t>{3, 40}, {500, 115}, {512, 1}}) {
        std::vector<float> part(count);
        run.store.read(kTable, 0, moment, static_cast<std::int64_t>(first), part);
        EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(first)))
            << name << ", from " << first;
      }
    }
  }
}

// Largest error of a moment, relative to the largest of its magnitudes.
double difference(const ParameterStore& a, const ParameterStore& b, StatePart moment) {
  double worst = 0;
  for (std::size_t group = 0; group < a.layout().groups.size(); ++group) {
    const std::vector<ParameterSpec>& parameters = a.layout().groups[group].parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      std::vector<float> left(static_cast<std::size_t>(parameters[i].shape.elements())), right(left.size());
      a.read(static_cast<GroupIndex>(group), i, moment, 0, left);
      b.read(static_cast<GroupIndex>(group), i, moment, 0, right);
      float largest = 1e-30f;
      for (const float value : left) largest = std::max(largest, std::abs(value));
      for (std::size_t k = 0; k < left.size(); ++k) {
        worst = std::max(worst, static_cast<double>(std::abs(left[k] - right[k]) / largest));
      }
    }
  }
  return worst;
}

TEST(CheckpointMoments, AreConvertedFromEveryFormatToEveryOther) {
  for (const auto& from : kMomentFormatNames) {
    const TemporaryFolder folder;
    TestRun saved(toy_layout(), options_with(from.name));
    saved.train(0, 3);
    const fs::path path = save_checkpoint(folder.path(), saved.store, {3, 1, 0, ""}, 1);
    for (const auto& to : kMomentFormatNames) {
      TestRun loaded(toy_layout(), options_with(to.name));
      load_checkpoint(path, loaded.store);
      const auto bound = [](optimizers::MomentFormat a, optimizers::MomentFormat b) {
        return a == b ? 0 : optimizers::error_bound(b);
      };
      EXPECT_LE(difference(saved.store, loaded.store, StatePart::moment1), bound(from.formats.first, to.formats.first))
          << from.name << " to " << to.name;
      EXPECT_LE(difference(saved.store, loaded.store, StatePart::moment2),
                bound(from.formats.second, to.formats.second))
          << from.name << " to " << to.name;
      loaded.train(3, 4);
    }
  }
}

// Every format keeps what it was given exactly: nothing is lost where nothing has to be.
TEST(CheckpointMoments, FormatsOfMorePrecisionLoseNothing) {
  const TemporaryFolder folder;
  for (const char* from : {"bf16", "int8"}) {
    TestRun saved(toy_layout(), options_with(from)), loaded(toy_layout(), options_with("fp32"));
    saved.train(0, 3);
    load_checkpoint(save_checkpoint(folder.path(), saved.store, {3, 1, 0, ""}, 1), loaded.store);
    EXPECT_EQ(loaded.store.state_hash(), saved.store.state_hash()) << from;
  }
}

// A file of before November 2026: 520 elements, whose last eight are in a second block.
TEST(CheckpointMoments, EarlierCodesOf8BitsAreRead) {
  const TemporaryFolder folder;
  constexpr std::size_t kCount = 520, kScales = 32;
  std::vector<std::byte> codes(kCount);
  std::vector<std::uint16_t> scales(kScales);
  for (std::size_t i = 0; i < kCount; ++i) codes[i] = static_cast<std::byte>(i * 7);
  for (std::size_t i = 0; i < kScales; ++i) scales[i] = to_bf16(std::ldexp(1.0f, static_cast<int>(i) - 20)).bits;
  const std::vector<formats::TensorToWrite> tensors = {{"w.moment1", Shape{kCount}, "I8"},
                                                       {"w.moment1.scales", Shape{kScales}, "BF16"},
                                                       {"w.moment2", Shape{kCount}, "U8"},
                                                       {"w.moment2.scales", Shape{kScales}, "BF16"}};
  const fs::path path = folder.path() / "optimizer.safetensors";
  formats::SafetensorsWriter writer(path, tensors, {});
  for (const std::size_t moment : {0, 2}) {
    writer.write(moment, 0, codes);
    writer.write(moment + 1, 0, std::as_bytes(std::span(scales)));
  }
  writer.finish();
  const formats::SafetensorsFile file(path);
  for (const StatePart moment : {StatePart::moment1, StatePart::moment2}) {
    const std::string name = moment == StatePart::moment1 ? "w.moment1" : "w.moment2";
    const SavedMoment saved{file, *file.find(name), file.find(scales_name(name)), moment, /*earlier=*/true};
    std::vector<float> values(kCount);
    saved.read(0, values);
    for (std::size_t i = 0; i < kCount; ++i) {
      const double scale = std::ldexp(1.0, static_cast<int>(i / 512 * 16 + i % 16) - 20);
      const double q = moment == StatePart::moment1 ? static_cast<std::int8_t>(codes[i]) / 127.0
                                                    : std::to_integer<int>(codes[i]) / 255.0;
      const double expected = moment == StatePart::moment1 ? q * std::abs(q) * scale : std::pow(q, 4) * scale;
      ASSERT_NEAR(values[i], expected, 1e-6 * scale) << name << " " << i;
    }
    std::vector<float> rest(8);
    saved.read(512, rest);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), values.begin() + 512));
  }
}

TEST(CheckpointMoments, MissingScalesAreNamed) {
  const TemporaryFolder folder;
  TestRun int8(toy_layout(), options_with("int8")), other(toy_layout(), options_with("int8"));
  int8.train(0, 1);
  const fs::path path = save_checkpoint(folder.path(), int8.store, {1, 1, 0, ""}, 1);
  std::string bytes = read_all(path / kOptimizerName);
  const std::size_t at = bytes.find("wte.weight.moment1.scales");
  bytes.replace(at, 25, "wte.weight.moment1.scalez");
  write_all(path / kOptimizerName, bytes);
  EXPECT_SAYS(load_refusal(path, other.store), "changed after it was written");
}

}  // namespace
}  // namespace l2l::eps

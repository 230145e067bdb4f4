// Checkpoints of moments in every format: resumed bit for bit in the same one, converted to another.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "eps/checkpoint/checkpoint_folders.h"
#include "eps/checkpoint/checkpoint_parts.h"
#include "eps/checkpoint/manifest.h"
#include "eps/checkpoint/moment_tensors.h"
#include "eps/checkpoint/tensor_list.h"
#include "eps/group_memory.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "tests/eps/small_checkpoint.h"
#include "tests/support/moment_errors.h"
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
    const CheckpointSize size =
        checkpoint_size(toy_layout(), state_types(run.options), /*without_frozen=*/false, run.store.writers(), 1);
    EXPECT_EQ(size.model, fs::file_size(saved / kModelName));
    EXPECT_EQ(size.optimizer, fs::file_size(saved / kOptimizerName));
    const formats::SafetensorsFile model(saved / kModelName);
    EXPECT_EQ(checkpoint_tensors(toy_layout(), state_types(run.options), /*without_frozen=*/false),
              model.tensors().size() + file.tensors().size());
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
        return a == b ? 0 : ::l2l::testing::error_bound(b);
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

// Values of earlier codes.
float earlier_value(StatePart moment, std::byte code, std::uint16_t scale) {
  const float q = moment == StatePart::moment1 ? static_cast<float>(static_cast<std::int8_t>(code)) / 127
                                               : static_cast<float>(std::to_integer<int>(code)) / 255;
  return (moment == StatePart::moment1 ? q * std::abs(q) : q * q * q * q) * to_float(bf16{scale});
}

// Writes the moments of a checkpoint anew, with other codes under `dtype` (of the first moment), and what the manifest
// says of them. Returns their values by tensor.
std::map<std::string, std::vector<float>> with_earlier_codes(const fs::path& folder, const std::string& dtype) {
  std::vector<formats::TensorToWrite> tensors;
  std::vector<std::vector<std::byte>> contents;
  std::map<std::string, std::vector<float>> values;
  {
    const formats::SafetensorsFile file(folder / kOptimizerName);
    for (const formats::TensorEntry& tensor : file.tensors()) {
      const bool first = tensor.name.ends_with(".moment1");
      tensors.push_back({tensor.name, tensor.shape, first ? dtype : tensor.dtype});
      std::vector<std::byte>& bytes = contents.emplace_back(tensor.end - tensor.begin);
      file.read_raw(tensor, 0, bytes);
      if (tensor.dtype != "U8") continue;
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
      std::vector<std::uint16_t> scales((bytes.size() + 511) / 512 * 16);
      file.read_raw(*file.find(scales_name(tensor.name)), 0, std::as_writable_bytes(std::span(scales)));
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        const StatePart moment = first ? StatePart::moment1 : StatePart::moment2;
        values[tensor.name].push_back(earlier_value(moment, bytes[i], scales[i / 512 * 16 + i % 16]));
      }
    }
  }
  formats::SafetensorsWriter writer(folder / kOptimizerName, tensors, checkpoint_metadata());
  for (std::size_t i = 0; i < tensors.size(); ++i) writer.write(i, 0, contents[i]);
  writer.finish();
  Manifest manifest = read_manifest(folder);
  const formats::SafetensorsFile file(folder / kOptimizerName);
  manifest.files[kOptimizerName] = {writer.bytes(), file.header_hash()};
  for (const formats::TensorEntry& tensor : file.tensors()) manifest.tensors[tensor.name] = file.hash(tensor);
  write_all(folder / kManifestName, to_text(manifest));
  return values;
}

TEST(CheckpointMoments, EarlierCodesOf8BitsAreConverted) {
  for (const optimizers::Optimizer& optimizer :
       {toy_options().optimizer, optimizers::Optimizer(optimizers::SgdSettings())}) {
    for (const char* const kept : {"fp32", "int8"}) {
      const TemporaryFolder folder;
      StoreOptions options = options_with("int8");
      options.optimizer = optimizer;
      TestRun saved(toy_layout(), options);
      saved.train(0, 2);
      const fs::path path = save_checkpoint(folder.path(), saved.store, {2, 1, 0, ""}, 1);
      const auto values = with_earlier_codes(path, "I8");
      options.moments = optimizers::parse_moment_formats(kept);
      TestRun loaded(toy_layout(), options);
      load_checkpoint(path, loaded.store);
      const double bound = ::l2l::testing::error_bound(options.moments.first);
      for (const auto& [name, expected] : values) {
        if (!name.starts_with("wte.weight.")) continue;
        std::vector<float> found(expected.size());
        const StatePart moment = name.ends_with("1") ? StatePart::moment1 : StatePart::moment2;
        loaded.store.read(kTable, 0, moment, 0, found);
        float most = 0;
        for (const float value : expected) most = std::max(most, std::abs(value));
        ASSERT_GT(most, 0);
        for (std::size_t i = 0; i < found.size(); ++i) {
          ASSERT_NEAR(found[i], expected[i], static_cast<float>(bound) * most + 1e-6f * most) << name << " " << i;
        }
      }
      loaded.train(2, 3);
    }
  }
}

// Negative control: the type says which codes they are, and what is read as new ones has other values.
TEST(CheckpointMoments, NewCodesAreNotTakenForEarlierOnes) {
  const TemporaryFolder folder;
  TestRun saved(toy_layout(), options_with("int8")), loaded(toy_layout(), options_with("fp32"));
  saved.train(0, 2);
  const fs::path path = save_checkpoint(folder.path(), saved.store, {2, 1, 0, ""}, 1);
  const std::vector<float> earlier = with_earlier_codes(path, "U8").at("wte.weight.moment1");
  load_checkpoint(path, loaded.store);
  std::vector<float> found(earlier.size());
  loaded.store.read(kTable, 0, StatePart::moment1, 0, found);
  EXPECT_NE(found, earlier);
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

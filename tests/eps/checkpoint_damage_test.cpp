// Law 7 for checkpoints: whatever was done to their files, loading refuses and changes nothing.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>

#include "eps/checkpoint/checkpoint.h"
#include "eps/checkpoint/checkpoint_folders.h"
#include "eps/checkpoint/checkpoint_parts.h"
#include "eps/checkpoint/manifest.h"
#include "formats/safetensors.h"
#include "tests/eps/small_checkpoint.h"
#include "tests/support/memory_files.h"
#include "tests/support/temporary_folder.h"

namespace l2l::eps {
namespace {

using namespace testing;
using ::l2l::testing::TemporaryFolder;

class DamagedCheckpoint : public ::testing::Test {
 protected:
  DamagedCheckpoint() : source_(small_layout()), target_(small_layout()) {
    fill(source_.store);
    path_ = save_checkpoint(folder_.path(), source_.store, kState, 2);
  }

  static constexpr const char* kNames[] = {kModelName, kOptimizerName, kManifestName};

  const TemporaryFolder folder_;
  TestRun source_, target_;
  fs::path path_;
};

TEST_F(DamagedCheckpoint, EveryTruncationIsRefused) {
  for (const char* name : kNames) {
    const std::string good = read_all(path_ / name);
    for (std::size_t length = 0; length < good.size(); ++length) {
      write_all(path_ / name, good.substr(0, length));
      const std::string message = load_refusal(path_, target_.store);
      ASSERT_NE(message.find(name), std::string::npos) << length << ": " << message;
      ASSERT_FALSE(defect(path_).empty()) << name << " " << length;
    }
    write_all(path_ / name, good + " ");
    EXPECT_SAYS(load_refusal(path_, target_.store), name);
    fs::remove(path_ / name);
    EXPECT_SAYS(load_refusal(path_, target_.store), std::string(name) + ": cannot be opened");
    write_all(path_ / name, good);
  }
  EXPECT_EQ(load_refusal(path_, target_.store), "(loaded)");
}

TEST_F(DamagedCheckpoint, EveryFlippedBitIsRefused) {
  for (const char* name : kNames) {
    const std::string good = read_all(path_ / name);
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::string damaged = good;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      write_all(path_ / name, damaged);
      const std::string message = load_refusal(path_, target_.store);
      ASSERT_NE(message.find(name), std::string::npos) << bit << ": " << message;
    }
    write_all(path_ / name, good);
  }
}

TEST_F(DamagedCheckpoint, DamagedDataNamesTheTensor) {
  const formats::SafetensorsFile file(path_ / kOptimizerName);
  std::string bytes = read_all(path_ / kOptimizerName);
  const formats::TensorEntry& tensor = *file.find("bias.moment2");
  bytes[bytes.size() - file.tensors().back().end + tensor.begin] ^= 1;
  write_all(path_ / kOptimizerName, bytes);
  EXPECT_SAYS(load_refusal(path_, target_.store), "optimizer.safetensors: tensor \"bias.moment2\": was changed after");
}

// A part of a file, and what a message about damage to it must hold.
struct Place {
  fs::path file;
  std::size_t begin = 0, end = 0;
  std::string name;  // empty: the name of the file is enough
};

// By the format alone: u64 length, JSON, data.
void add_places(const fs::path& path, std::vector<Place>& places) {
  const formats::SafetensorsFile file(path);
  const std::size_t header = fs::file_size(path) - file.tensors().back().end;
  places.push_back({path, 0, header, ""});
  for (const formats::TensorEntry& tensor : file.tensors())
    places.push_back({path, header + tensor.begin, header + tensor.end, "tensor \"" + tensor.name + "\""});
}

// A checkpoint of half a megabyte, each of its files damaged in place.
class LargeDamagedCheckpoint : public ::testing::Test {
 protected:
  LargeDamagedCheckpoint() : source_(toy_layout()), target_(toy_layout()) {
    source_.train(0, 2);
    path_ = save_checkpoint(folder_.path(), source_.store, at_step(2), 1);
    add_places(path_ / kModelName, places_);
    add_places(path_ / kOptimizerName, places_);
    places_.push_back({path_ / kManifestName, 0, fs::file_size(path_ / kManifestName), ""});
  }

  std::string refusal() {
    try {
      load_checkpoint(path_, target_.store);
    } catch (const CorruptFile& error) {
      return error.what();
    }
    return "(loaded)";
  }

  const TemporaryFolder folder_;
  TestRun source_, target_;
  fs::path path_;
  std::vector<Place> places_;
};

void flip(const fs::path& file, std::size_t byte, int bit) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(byte));
  const int value = stream.get();
  stream.seekp(static_cast<std::streamoff>(byte));
  stream.put(static_cast<char>(value ^ (1 << bit)));
}

TEST_F(LargeDamagedCheckpoint, TenThousandFlippedBitsAreRefusedByName) {
  const std::uint64_t before = target_.store.state_hash();
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    // Every place as often as another: by bytes alone nearly all would hit the largest tensors.
    const Place& place = places_[static_cast<std::size_t>(i) % places_.size()];
    const std::size_t byte = place.begin + random() % (place.end - place.begin);
    const int bit = static_cast<int>(random() % 8);
    flip(place.file, byte, bit);
    const std::string message = refusal();
    flip(place.file, byte, bit);
    ASSERT_TRUE(message.starts_with(place.file.string() + ": ")) << i << ": " << message;
    ASSERT_NE(message.find(place.name), std::string::npos) << i << ", " << place.name << ": " << message;
  }
  EXPECT_EQ(target_.store.state_hash(), before);
  EXPECT_EQ(places_.size(), 10u + 20 + 3);
  EXPECT_EQ(load_refusal(path_, target_.store), "(loaded)");
}

// The smaller checkpoint has every length; here those about every boundary, and some between.
TEST_F(LargeDamagedCheckpoint, TruncationsAreRefusedByName) {
  std::mt19937_64 random(2);
  for (const Place& place : places_) {
    const std::string good = read_all(place.file);
    std::set<std::size_t> lengths = {place.begin, place.begin + 1, place.end - 1};
    for (int i = 0; i < 20; ++i) lengths.insert(place.begin + random() % (place.end - place.begin));
    for (const std::size_t length : lengths) {
      fs::resize_file(place.file, length);
      ASSERT_NE(defect(path_).find(place.file.filename()), std::string::npos) << length << ": " << defect(path_);
      const std::string message = refusal();
      ASSERT_TRUE(message.starts_with(place.file.string() + ": ")) << length << ": " << message;
      ASSERT_NE(message.find(place.name), std::string::npos) << length << ": " << message;
      write_all(place.file, good);
    }
  }
  EXPECT_EQ(load_refusal(path_, target_.store), "(loaded)");
}

// Rewrites the manifest with its own hash made right again, as an attacker would.
void forge(const fs::path& folder, const std::function<void(Manifest&)>& change) {
  Manifest manifest = read_manifest(folder);
  change(manifest);
  write_all(folder / kManifestName, to_text(manifest));
}

TEST_F(DamagedCheckpoint, ManifestsThatDoNotFitTheModelAreRefused) {
  const std::string good = read_all(path_ / kManifestName);
  const auto refusal = [&](const std::function<void(Manifest&)>& change) {
    forge(path_, change);
    const std::string message = load_refusal(path_, target_.store);
    write_all(path_ / kManifestName, good);
    return message;
  };
  EXPECT_SAYS(refusal([](Manifest& m) { m.update_counts.erase("second"); }), "update_counts.second: is missing");
  EXPECT_SAYS(refusal([](Manifest& m) { m.update_counts["third"] = 1; }), "groups that the model has not");
  EXPECT_SAYS(refusal([](Manifest& m) { m.files.erase(kModelName); }), "model.safetensors: is not in the manifest");
  EXPECT_SAYS(refusal([](Manifest& m) { ++m.files[kModelName].bytes; }), "the manifest says");
  EXPECT_SAYS(refusal([](Manifest& m) { ++m.files[kModelName].header; }), "header: was changed");
  EXPECT_SAYS(refusal([](Manifest& m) { m.tensors.erase("gain"); }), "\"gain\": was not saved");
  EXPECT_SAYS(refusal([](Manifest& m) { ++m.tensors["gain"]; }), "\"gain\": was changed");
}

// Whatever looks at the folder refuses it, before anything that the manifest names is touched.
TEST_F(DamagedCheckpoint, ManifestsThatNameOtherFilesOrImpossibleCountsAreRefused) {
  const std::string good = read_all(path_ / kManifestName);
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;
  const std::pair<std::function<void(Manifest&)>, std::string> forgeries[] = {
      {[](Manifest& m) {
         m.files["../../x"] = {1, 2};
       },
       "files.../../x: is no file of a checkpoint"},
      {[](Manifest& m) {
         m.files["/etc/passwd"] = {1, 2};
       },
       "is no file of a checkpoint"},
      {[](Manifest& m) {
         m.files[""] = {1, 2};
       },
       "is no file of a checkpoint"},
      {[](Manifest& m) { m.files[kModelName].bytes = ~Bytes{0}; },
       "model.safetensors.bytes: is 18446744073709551615, beyond"},
      {[](Manifest& m) { m.state.step = kHuge; }, "step: is 4611686018427387904, beyond 9007199254740992"},
      {[](Manifest& m) { m.state.data_position = kHuge; }, "data_position: is 4611686018427387904, beyond"},
      {[](Manifest& m) { m.update_counts["second"] = kHuge; }, "update_counts.second: is 4611686018427387904, beyond"}};
  for (const auto& [change, reason] : forgeries) {
    forge(path_, change);
    EXPECT_SAYS(load_refusal(path_, target_.store), reason);
    EXPECT_SAYS(defect(path_), reason);
    EXPECT_THROW(find_checkpoints(path_.parent_path()), BadInput);
    write_all(path_ / kManifestName, good);
  }
  fs::rename(path_, path_.parent_path() / "step-4611686018427387904");
  EXPECT_TRUE(list_checkpoints(path_.parent_path()).empty());
}

TEST_F(DamagedCheckpoint, WeightsThatAreNotFiniteAreRefusedUnlessThatIsAllowed) {
  TestRun source(small_layout());
  fill(source.store);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    source.store.write(0, 1, StatePart::master, 1, std::span(&bad, 1));
    const fs::path saved = save_checkpoint(path_.parent_path() / "other", source.store, {}, 1);
    EXPECT_SAYS(load_refusal(saved, target_.store), "model.safetensors: tensor \"bias\": element 1 is not finite");
    EXPECT_NO_THROW(load_checkpoint(saved, target_.store, /*allow_nonfinite=*/true));
  }
}

TEST_F(DamagedCheckpoint, ManifestsOfWrongKindsAreRefused) {
  const std::string good = read_all(path_ / kManifestName);
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t place = text.find(from);
    if (place == std::string::npos) return "no " + from;
    write_all(path_ / kManifestName, text.replace(place, from.size(), to));
    return load_refusal(path_, target_.store);
  };
  EXPECT_SAYS(refusal("\"version\": 2", "\"version\": 1"), "version: is 1; this program reads version 2");
  EXPECT_SAYS(refusal("l2l-checkpoint", "other"), "format: is not l2l-checkpoint");
  EXPECT_SAYS(refusal("\"step\": 9", "\"step\": -9"), "step: is no whole number");
  EXPECT_SAYS(refusal("\"step\": 9", "\"step\": \"9\""), "step: is no whole number");
  EXPECT_SAYS(refusal("\"step\": 9", "\"step\": 10"), "xxh64: the text was changed");
  EXPECT_SAYS(refusal("\"step\": 9", "\"steq\": 9"), "step: is missing");
  EXPECT_SAYS(refusal("\"bytes\"", "\"byte\""), "bytes: is missing");
  EXPECT_SAYS(refusal("\"update_counts\": {", "\"update_counts\": 1, \"x\": {"), "update_counts: is no object");
  EXPECT_SAYS(refusal("\"header\": \"", "\"header\": \"g"), "header: is no hash of 16");
  EXPECT_SAYS(refusal("\"header\": \"", "\"header\": \"0"), "header: is no hash of 16");  // a digit too many
  EXPECT_SAYS(refusal("\"bias\": \"", "\"bias\": \"g"), "tensors.bias: is no hash of 16");
  EXPECT_SAYS(refusal("\"bias\": ", "\"bias\": {}, \"x\": "), "tensors.bias: is no string");
  EXPECT_SAYS(refusal("\"tensors\": {", "\"tensors\": [\"x\"], \"x\": {"), "tensors: is no object");
  EXPECT_SAYS(refusal("\"tensors\": {", "\"x\": {"), "tensors: is missing");
  // Of another version, whatever it holds.
  write_all(path_ / kManifestName, R"({"format": "l2l-checkpoint", "tensors": {"bias": {}}, "version": 3})");
  EXPECT_SAYS(load_refusal(path_, target_.store), "version: is 3; this program reads version 2");
  for (const char* text : {"", "{", "null", "[]", "3", "{}"}) {
    write_all(path_ / kManifestName, text);
    EXPECT_SAYS(load_refusal(path_, target_.store), "manifest.json: ");
  }
  write_all(path_ / kManifestName, std::string(200'000, '['));
  EXPECT_SAYS(load_refusal(path_, target_.store), "is not JSON");
  write_all(path_ / kManifestName, std::string(100'000, '[') + std::string(100'000, ']'));
  EXPECT_SAYS(load_refusal(path_, target_.store), "is not JSON");
}

TEST_F(DamagedCheckpoint, AnotherModelIsRefusedByTensor) {
  ModelLayout wider = small_layout(), named = small_layout(), more = small_layout(), fewer = small_layout();
  wider.groups[0].parameters[0].shape = {3, 2};
  named.groups[1].parameters[0].name = "gain2";
  more.groups[1].parameters.push_back({"extra", {1}, 2, false, Initial::zeros, 0});
  fewer.groups[0].parameters.pop_back();
  const auto refusal = [&](const ModelLayout& layout) {
    TestRun other(layout);
    return load_refusal(path_, other.store);
  };
  EXPECT_SAYS(refusal(wider), "model.safetensors: tensor \"weight\": has shape [2, 3], the model has [3, 2]");
  EXPECT_SAYS(refusal(named), "tensor \"gain2\": is missing");
  EXPECT_SAYS(refusal(more), "tensor \"extra\": is missing");
  EXPECT_SAYS(refusal(fewer), "tensor \"bias\": the model has none");
}

TEST_F(DamagedCheckpoint, OptimizerFileOfAnotherModelLeavesTheStoreUnchanged) {
  // The model's file is right, so a loader that restores file by file would have written it already.
  TestRun other(testing::toy_layout());
  const TemporaryFolder elsewhere;
  const fs::path path = save_checkpoint(elsewhere.path(), other.store, kState, 1);
  fs::copy_file(path / kOptimizerName, path_ / kOptimizerName, fs::copy_options::overwrite_existing);
  forge(path_, [&](Manifest& m) {
    const Manifest theirs = read_manifest(path);
    m.files[kOptimizerName] = theirs.files.at(kOptimizerName);
    m.tensors.insert(theirs.tensors.begin(), theirs.tensors.end());
  });
  EXPECT_SAYS(load_refusal(path_, target_.store), "optimizer.safetensors: tensor \"weight.moment1\": is missing");
}

}  // namespace
}  // namespace l2l::eps

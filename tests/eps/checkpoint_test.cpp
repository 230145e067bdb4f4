#include "eps/checkpoint.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>

#include "eps/checkpoint_folders.h"
#include "eps/checkpoint_parts.h"
#include "eps/manifest.h"
#include "eps/safetensors.h"
#include "l2l/errors.h"
#include "tests/eps/fault_points.h"
#include "tests/eps/memory_files.h"
#include "tests/eps/toy.h"
#include "tests/support/temporary_folder.h"

namespace l2l::eps {
namespace {

namespace fs = std::filesystem;
using ::l2l::testing::ArmedFaultPoint;
using ::l2l::testing::TemporaryFolder;

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// A store with all that it needs.
struct TestRun {
  explicit TestRun(ModelLayout layout, StoreOptions options = testing::toy_options())
      : options(options), store(std::move(layout), options, memory, failure, nullptr) {}

  // Steps [from, to) of a toy run.
  void train(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t step = from; step < to; ++step) testing::run_step(store, options, step);
  }

  StoreOptions options;
  Failure failure;
  testing::TestMemory memory;
  ParameterStore store;
};

// Two groups, three parameters, padding: files of a few hundred bytes.
ModelLayout small_layout() {
  ModelLayout layout;
  layout.groups.push_back(
      {"first",
       1,
       {{"weight", {2, 3}, 0, true, Initial::normal, 0.5f}, {"bias", {3}, 8, false, Initial::ones, 0}},
       12});
  layout.groups.push_back({"second", 2, {{"gain", {1}, 0, false, Initial::normal, 1.0f}}, 4});
  layout.layers.push_back({"layer0", 1, {{0, 0}}, 12});
  layout.layers.push_back({"layer1", 2, {{1, 0}}, 4});
  return layout;
}

// State that differs in every element, some of it awkward: denormal, negative zero, infinity.
void fill(ParameterStore& store) {
  float next = 0.1f;
  const auto& groups = store.layout().groups;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (std::size_t i = 0; i < groups[group].parameters.size(); ++i) {
      const auto count = static_cast<std::size_t>(groups[group].parameters[i].shape.elements());
      std::vector<float> states[3];
      for (std::vector<float>& state : states) {
        for (std::size_t j = 0; j < count; ++j) state.push_back(next *= 1.37f);
      }
      states[0][0] = -0.0f;
      states[1][0] = 1e-40f;
      states[2].back() = INFINITY;
      store.write(static_cast<GroupIndex>(group), i, {states[0], states[1], states[2]});
    }
  }
  const std::vector<std::uint64_t> counts = {7, 3};
  store.restore(9, counts);
}

const RunState kState{9, 0xfedcba9876543210u, 1234, "[run]\nsteps = 9\n"};

std::string bits(const ParameterStore& store) {
  const std::vector<float> values = testing::whole_state(store);
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::string read_all(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_all(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

// Why loading is refused, with the store unchanged; "(loaded)" when it is not.
std::string load_refusal(const fs::path& folder, ParameterStore& store) {
  const std::string before = bits(store);
  try {
    load_checkpoint(folder, store);
  } catch (const CorruptFile& error) {
    EXPECT_EQ(bits(store), before);
    return error.what();
  }
  return "(loaded)";
}

std::string bad_input(const std::function<void()>& function) {
  try {
    function();
  } catch (const BadInput& error) {
    return error.what();
  }
  return "(no BadInput)";
}

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Checkpoint, RoundTripsBitForBit) {
  const TemporaryFolder folder;
  TestRun saved(small_layout()), loaded(small_layout());
  fill(saved.store);
  ASSERT_NE(bits(saved.store), bits(loaded.store));
  const fs::path path = save_checkpoint(folder / "a/b", saved.store, kState, 2);
  EXPECT_EQ(path, folder / "a/b/step-00000009");
  const RunState state = load_checkpoint(path, loaded.store);
  EXPECT_EQ(bits(loaded.store), bits(saved.store));
  EXPECT_EQ(loaded.store.state_hash(), saved.store.state_hash());
  EXPECT_EQ(state.step, kState.step);
  EXPECT_EQ(state.seed, kState.seed);
  EXPECT_EQ(state.data_position, kState.data_position);
  EXPECT_EQ(state.config, kState.config);
  EXPECT_EQ(loaded.store.update_count(0), 7u);
  EXPECT_EQ(loaded.store.update_count(1), 3u);
}

TEST(Checkpoint, HoldsTheFilesOfTheFormat) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  fill(run.store);
  const fs::path path = save_checkpoint(folder.path(), run.store, kState, 2);
  EXPECT_EQ(entries(path), (std::vector<std::string>{"manifest.json", "model.safetensors", "optimizer.safetensors"}));
  const SafetensorsFile model(path / kModelName), optimizer(path / kOptimizerName);
  EXPECT_EQ(model.metadata().at("format"), "pt");
  EXPECT_EQ(model.tensors().size(), 3u);
  EXPECT_EQ(model.find("weight")->shape, (Shape{2, 3}));
  EXPECT_EQ(optimizer.tensors().size(), 6u);
  ASSERT_NE(optimizer.find("gain.moment2"), nullptr);
  float gain[3];
  run.store.read(1, 0, {{gain, 1}, {gain + 1, 1}, {gain + 2, 1}});
  float read = 0;
  optimizer.read(*optimizer.find("gain.moment2"), {&read, 1});
  EXPECT_EQ(read, gain[2]);
}

TEST(Checkpoint, ABf16StoreKeepsItsMasterExactly) {
  const TemporaryFolder folder;
  StoreOptions options = testing::toy_options();
  options.wire = options.gradients = DType::bf16;
  TestRun saved(testing::toy_layout(), options), loaded(testing::toy_layout());
  saved.train(0, 2);
  load_checkpoint(save_checkpoint(folder.path(), saved.store, {2, 1, 0, ""}, 1), loaded.store);
  EXPECT_EQ(loaded.store.state_hash(), saved.store.state_hash());
}

StoreOptions sgd_options() {
  StoreOptions options = testing::toy_options();
  options.optimizer = optimizers::SgdSettings{.weight_decay = 0.1f};
  return options;
}

TEST(Checkpoint, HoldsTheMomentsThatThereAre) {
  const TemporaryFolder folder;
  TestRun saved(testing::toy_layout(), sgd_options()), loaded(testing::toy_layout(), sgd_options());
  saved.train(0, 2);
  const fs::path path = save_checkpoint(folder.path(), saved.store, {2, 1, 0, ""}, 1);
  const SafetensorsFile optimizer(path / kOptimizerName);
  EXPECT_NE(optimizer.find("wte.weight.moment1"), nullptr);
  EXPECT_EQ(optimizer.find("wte.weight.moment2"), nullptr);
  load_checkpoint(path, loaded.store);
  EXPECT_EQ(loaded.store.state_hash(), saved.store.state_hash());
  saved.train(2, 4);
  loaded.train(2, 4);
  EXPECT_EQ(loaded.store.state_hash(), saved.store.state_hash());
}

TEST(Checkpoint, OfAnotherOptimizerIsRefused) {
  const TemporaryFolder folder;
  TestRun adamw(testing::toy_layout()), sgd(testing::toy_layout(), sgd_options());
  const fs::path first = save_checkpoint(folder.path(), adamw.store, {0, 1, 0, ""}, 9);
  EXPECT_SAYS(load_refusal(first, sgd.store), "moment2\": the model has none; another model or optimizer was saved");
  const fs::path second = save_checkpoint(folder.path(), sgd.store, {0, 1, 0, ""}, 9);
  EXPECT_SAYS(load_refusal(second, adamw.store), "moment2\": is missing; another model or optimizer was saved");
}

TEST(Checkpoint, TheStateOfTheLossScaleIsKept) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  RunState state{0, 1, 0, "", 4096, 17};
  const RunState read = load_checkpoint(save_checkpoint(folder.path(), run.store, state, 1), run.store);
  EXPECT_EQ(read.loss_scale, 4096u);
  EXPECT_EQ(read.good_steps, 17u);
  for (const std::uint64_t scale : {3u, 1u << 25}) {
    state.loss_scale = scale;
    const fs::path path = save_checkpoint(folder.path(), run.store, state, 1);
    EXPECT_SAYS(load_refusal(path, run.store), "loss_scale: is no power of two");
  }
}

// Five steps, with a save, a new store and a load after the third.
std::uint64_t interrupted_run(const fs::path& directory, RunState* state = nullptr) {
  TestRun first(testing::toy_layout()), second(testing::toy_layout());
  first.train(0, 3);
  const fs::path path = save_checkpoint(directory, first.store, {3, 11, 24, ""}, 1);
  const RunState restored = load_checkpoint(path, second.store);
  if (state != nullptr) *state = restored;
  second.train(restored.step, 5);
  return second.store.state_hash();
}

TEST(Checkpoint, AResumedRunEqualsTheUninterruptedOne) {
  const TemporaryFolder folder;
  TestRun whole(testing::toy_layout());
  whole.train(0, 5);
  RunState state;
  EXPECT_EQ(interrupted_run(folder.path(), &state), whole.store.state_hash());
  EXPECT_EQ(state.seed, 11u);
  EXPECT_EQ(state.data_position, 24u);
}

TEST(Checkpoint, EveryDroppedFieldIsCaught) {
  L2L_NEEDS_FAULT_POINTS();
  const TemporaryFolder folder;
  TestRun whole(testing::toy_layout());
  whole.train(0, 5);
  for (const char* field :
       {"checkpoint.drop_master", "checkpoint.drop_moments", "checkpoint.drop_step", "checkpoint.drop_update_counts"}) {
    const ArmedFaultPoint armed(field);
    EXPECT_NE(interrupted_run(folder.path()), whole.store.state_hash()) << field;
  }
  RunState state;
  {
    const ArmedFaultPoint armed("checkpoint.drop_seed");
    interrupted_run(folder.path(), &state);
    EXPECT_NE(state.seed, 11u);
  }
  const ArmedFaultPoint armed("checkpoint.drop_data_position");
  interrupted_run(folder.path(), &state);
  EXPECT_NE(state.data_position, 24u);
}

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
  const SafetensorsFile file(path_ / kOptimizerName);
  std::string bytes = read_all(path_ / kOptimizerName);
  const TensorEntry& tensor = *file.find("bias.moment2");
  bytes[bytes.size() - file.tensors().back().end + tensor.begin] ^= 1;
  write_all(path_ / kOptimizerName, bytes);
  EXPECT_SAYS(load_refusal(path_, target_.store), "optimizer.safetensors: tensor \"bias.moment2\": was changed after");
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
  EXPECT_SAYS(refusal([](Manifest& m) { ++m.files[kModelName].hash; }), "header: was changed");
  EXPECT_SAYS(refusal([](Manifest& m) { ++m.files[kModelName].hash, m.tensors.erase("gain"); }),
              "\"gain\": was not saved");
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
  EXPECT_SAYS(refusal("\"version\": 1", "\"version\": 2"), "version: is 2; this program reads version 1");
  EXPECT_SAYS(refusal("l2l-checkpoint", "other"), "format: is not l2l-checkpoint");
  EXPECT_SAYS(refusal("\"step\": 9", "\"step\": -9"), "step: is no whole number");
  EXPECT_SAYS(refusal("\"step\": 9", "\"step\": \"9\""), "step: is no whole number");
  EXPECT_SAYS(refusal("\"step\": 9", "\"step\": 10"), "xxh64: the text was changed");
  EXPECT_SAYS(refusal("\"step\": 9", "\"steq\": 9"), "step: is missing");
  EXPECT_SAYS(refusal("\"bytes\"", "\"byte\""), "bytes: is missing");
  EXPECT_SAYS(refusal("\"update_counts\": {", "\"update_counts\": 1, \"x\": {"), "update_counts: is no object");
  EXPECT_SAYS(refusal("\"xxh64\": \"", "\"xxh64\": \"g"), "is no hash of 16");
  for (const char* text : {"", "{", "null", "[]", "3", "{}"}) {
    write_all(path_ / kManifestName, text);
    EXPECT_SAYS(load_refusal(path_, target_.store), "manifest.json: ");
  }
  write_all(path_ / kManifestName, std::string(200'000, '['));
  EXPECT_SAYS(load_refusal(path_, target_.store), "is not JSON");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "[";
  write_all(path_ / kManifestName, deep + std::string(100'000, ']'));
  EXPECT_SAYS(load_refusal(path_, target_.store), "manifest.json: format");
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
  forge(path_, [&](Manifest& m) { m.files[kOptimizerName] = read_manifest(path).files.at(kOptimizerName); });
  EXPECT_SAYS(load_refusal(path_, target_.store), "optimizer.safetensors: tensor \"weight.moment1\": is missing");
}

RunState at_step(std::uint64_t step) { return {step, 1, step, ""}; }

TEST(CheckpointFolders, FindsTheNewestCompleteOne) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  for (const std::uint64_t step : {5u, 99'999'999u, 100'000'000u}) {
    save_checkpoint(folder.path(), run.store, at_step(step), 10);
  }
  EXPECT_EQ(find_checkpoint(folder.path()).filename(), "step-100000000") << "by number, not by name";
  write_all(folder / "step-100000000/optimizer.safetensors", "short");
  EXPECT_EQ(find_checkpoint(folder.path()).filename(), "step-99999999");
  write_all(folder / "step-99999999/manifest.json", "{}");
  EXPECT_EQ(find_checkpoint(folder.path()).filename(), "step-00000005");
  EXPECT_EQ(find_checkpoint(folder / "step-00000005"), folder / "step-00000005") << "itself";
  EXPECT_SAYS(bad_input([&] { find_checkpoint(folder / "step-100000000"); }), "is not complete");
  fs::remove(folder / "step-00000005/model.safetensors");
  EXPECT_SAYS(bad_input([&] { find_checkpoint(folder.path()); }), "holds no complete checkpoint");
  EXPECT_SAYS(bad_input([&] { find_checkpoint(folder / "missing"); }), "missing: checkpoints cannot be listed");
}

TEST(CheckpointFolders, IgnoresWhatOnlyLooksAlike) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  const fs::path good = save_checkpoint(folder.path(), run.store, at_step(1), 10);
  for (const char* name :
       {"step-", "step-x", "step-2x", "step--2", "step-99999999999999999999", "other", ".step-00000009"}) {
    fs::copy(good, folder / name);
  }
  EXPECT_EQ(find_checkpoint(folder.path()), good);
}

TEST(CheckpointFolders, KeepsTheNewest) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  for (std::uint64_t step = 1; step <= 5; ++step) save_checkpoint(folder.path(), run.store, at_step(step), 2);
  EXPECT_EQ(entries(folder.path()), (std::vector<std::string>{"step-00000004", "step-00000005"}));
  write_all(folder / "step-00000005/manifest.json", "");
  save_checkpoint(folder.path(), run.store, at_step(6), 2);
  EXPECT_EQ(entries(folder.path()), (std::vector<std::string>{"step-00000004", "step-00000005", "step-00000006"}))
      << "one that cannot be loaded does not count";
  save_checkpoint(folder.path(), run.store, at_step(2), 1);
  EXPECT_EQ(entries(folder.path()), (std::vector<std::string>{"step-00000002", "step-00000006"}))
      << "what was just saved stays, although older by step";
}

TEST(CheckpointFolders, SavingAStepTwiceReplacesIt) {
  const TemporaryFolder folder;
  TestRun run(small_layout()), target(small_layout());
  save_checkpoint(folder.path(), run.store, at_step(4), 2);
  fill(run.store);
  const fs::path path = save_checkpoint(folder.path(), run.store, at_step(4), 2);
  EXPECT_EQ(entries(folder.path()), std::vector<std::string>{"step-00000004"});
  load_checkpoint(path, target.store);
  EXPECT_EQ(bits(target.store), bits(run.store));
}

TEST(CheckpointFolders, AReplacementInterruptedBetweenItsRenamesLosesNothing) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  const fs::path path = save_checkpoint(folder.path(), run.store, at_step(4), 2);
  fs::rename(path, path.string() + ".old");
  EXPECT_EQ(find_checkpoint(folder.path()).filename(), "step-00000004.old");
  save_checkpoint(folder.path(), run.store, at_step(4), 2);
  EXPECT_EQ(entries(folder.path()), std::vector<std::string>{"step-00000004"});
  fs::copy(path, path.string() + ".old");
  EXPECT_EQ(find_checkpoint(folder.path()).filename(), "step-00000004") << "the new one once it is there";
  save_checkpoint(folder.path(), run.store, at_step(4), 2);
  EXPECT_EQ(entries(folder.path()), std::vector<std::string>{"step-00000004"});
}

// A process that is gone, as far as the system knows.
pid_t dead_process() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

TEST(CheckpointFolders, AnInterruptedSaveDisturbsNobodyAndIsClearedLater) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  const fs::path good = save_checkpoint(folder.path(), run.store, at_step(1), 2);
  const fs::path stale = folder / (".step-00000002.tmp-" + std::to_string(dead_process()));
  const fs::path alive = folder / (".step-00000002.tmp-" + std::to_string(getppid()));
  fs::copy(good, stale);
  fs::remove(stale / kManifestName);
  fs::copy(good, alive);
  EXPECT_EQ(find_checkpoint(folder.path()), good);
  save_checkpoint(folder.path(), run.store, at_step(2), 2);
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(alive)) << "its process still writes";
}

TEST(CheckpointFolders, AFailedSaveLeavesTheOldOneAndNoRubbish) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  save_checkpoint(folder.path(), run.store, at_step(1), 1);
  write_all(folder / "file", "");
  EXPECT_THROW(save_checkpoint(folder / "file", run.store, at_step(2), 1), Error);
  EXPECT_THROW(save_checkpoint(folder / "file/below", run.store, at_step(2), 1), Error);
  EXPECT_THROW(save_checkpoint("/proc/l2l", run.store, at_step(2), 1), Error);
  EXPECT_EQ(entries(folder.path()), (std::vector<std::string>{"file", "step-00000001"}));
}

// Saves steps 1, 2, 3, ... until it is killed; the bias of each is its step.
[[noreturn]] void save_forever(const fs::path& directory) {
  TestRun run(small_layout());
  for (std::uint64_t step = 1;; ++step) {
    std::vector<float> master(3, static_cast<float>(step)), moment1(3), moment2(3);
    run.store.write(0, 1, {master, moment1, moment2});
    save_checkpoint(directory, run.store, at_step(step), 1);
  }
}

TEST(CheckpointFolders, AKilledSaverLeavesACompleteCheckpoint) {
  std::uint64_t least = 0;
  for (int kill_number = 0; kill_number < 12; ++kill_number) {
    const TemporaryFolder folder;
    const pid_t child = fork();
    if (child == 0) save_forever(folder.path());
    const auto saved = [&] { return bad_input([&] { find_checkpoint(folder.path()); }) == "(no BadInput)"; };
    for (int wait = 0; wait < 20'000 && !saved(); ++wait) usleep(500);
    usleep(static_cast<useconds_t>(713 * kill_number));  // all moments of a save, in the long run
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    TestRun loaded(small_layout());
    const RunState state = load_checkpoint(find_checkpoint(folder.path()), loaded.store);
    std::vector<float> master(3), moment1(3), moment2(3);
    loaded.store.read(0, 1, {master, moment1, moment2});
    EXPECT_EQ(master[0], static_cast<float>(state.step)) << "all of one save";
    least = std::max(least, state.step);
  }
  EXPECT_GT(least, 1u) << "some were killed in a later save";
}

TEST(Checkpoint, BuffersAreThoseOfTheLargestParameter) {
  EXPECT_GE(checkpoint_buffer_bytes(testing::toy_layout()), checkpoint_buffer_bytes(small_layout()));
  ModelLayout layout = small_layout();
  const Bytes before = checkpoint_buffer_bytes(layout);
  layout.groups[0].parameters[0].shape = {1000, 1000};
  EXPECT_EQ(checkpoint_buffer_bytes(layout) - before, 3u * 4 * (1'000'000 - 6));
}

}  // namespace
}  // namespace l2l::eps

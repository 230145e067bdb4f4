#include "eps/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include "eps/checkpoint/checkpoint_folders.h"
#include "eps/checkpoint/checkpoint_parts.h"
#include "eps/checkpoint/checkpoint_writer.h"
#include "formats/safetensors.h"
#include "tests/eps/fault_points.h"
#include "tests/eps/small_checkpoint.h"
#include "tests/support/memory_files.h"
#include "tests/support/parameter_state.h"
#include "tests/support/temporary_folder.h"

namespace l2l::eps {
namespace {

using namespace testing;
using ::l2l::testing::ArmedFaultPoint;
using ::l2l::testing::TemporaryFolder;

TEST(Checkpoint, RoundTripsBitForBit) {
  const TemporaryFolder folder;
  TestRun saved(small_layout()), loaded(small_layout());
  fill(saved.store);
  ASSERT_NE(bits(saved.store), bits(loaded.store));
  const fs::path path = save_checkpoint(folder / "a/b", saved.store, kState, 2);
  EXPECT_EQ(path, folder / "a/b/step-00000009");
  const SavedRun state = load_checkpoint(path, loaded.store);
  EXPECT_EQ(bits(loaded.store), bits(saved.store));
  EXPECT_EQ(loaded.store.state_hash(), saved.store.state_hash());
  EXPECT_EQ(state.step, kState.step);
  EXPECT_EQ(state.seed, kState.seed);
  EXPECT_EQ(state.data_position, kState.data_position);
  EXPECT_EQ(state.config, kState.config);
  EXPECT_EQ(state.data_hash, kState.data_hash);
  EXPECT_EQ(loaded.store.update_count(0), 7u);
  EXPECT_EQ(loaded.store.update_count(1), 3u);
}

TEST(Checkpoint, HoldsTheFilesOfTheFormat) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  fill(run.store);
  const fs::path path = save_checkpoint(folder.path(), run.store, kState, 2);
  EXPECT_EQ(entries(path), (std::vector<std::string>{"manifest.json", "model.safetensors", "optimizer.safetensors"}));
  const formats::SafetensorsFile model(path / kModelName), optimizer(path / kOptimizerName);
  EXPECT_EQ(model.metadata().at("format"), "pt");
  EXPECT_EQ(model.tensors().size(), 3u);
  EXPECT_EQ(model.find("weight")->shape, (Shape{2, 3}));
  EXPECT_EQ(optimizer.tensors().size(), 6u);
  ASSERT_NE(optimizer.find("gain.moment2"), nullptr);
  float gain[3];
  read_state(run.store, 1, 0, {{gain, 1}, {gain + 1, 1}, {gain + 2, 1}});
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
  const formats::SafetensorsFile optimizer(path / kOptimizerName);
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
  SavedRun state;
  state.seed = 1;
  state.loss_scale = 4096;
  state.good_steps = 17;
  const SavedRun read = load_checkpoint(save_checkpoint(folder.path(), run.store, state, 1), run.store);
  EXPECT_EQ(read.loss_scale, 4096u);
  EXPECT_EQ(read.good_steps, 17u);
  for (const std::uint64_t scale : {3u, 1u << 25}) {
    state.loss_scale = scale;
    const fs::path path = save_checkpoint(folder.path(), run.store, state, 1);
    EXPECT_SAYS(load_refusal(path, run.store), "loss_scale: is no power of two");
  }
}

TEST(Checkpoint, KeepsHowDropoutDecides) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  SavedRun state;
  state.seed = 1;
  for (const DropoutMasks masks : {DropoutMasks::bytes, DropoutMasks::words}) {
    state.dropout_masks = masks;
    const fs::path path = save_checkpoint(folder.path(), run.store, state, 1);
    EXPECT_EQ(load_checkpoint(path, run.store).dropout_masks, masks);
  }
  state.dropout_masks = static_cast<DropoutMasks>(3);  // of a later version
  const fs::path path = save_checkpoint(folder.path(), run.store, state, 1);
  EXPECT_SAYS(load_refusal(path, run.store), "dropout_masks: is not 2");
}

TEST(Checkpoint, KeepsChoicesOfKernels) {
  const TemporaryFolder folder;
  TestRun run(small_layout());
  SavedRun state;
  state.seed = 1;
  const fs::path path = save_checkpoint(folder.path(), run.store, state, 1);
  const std::string without = read_all(path / kManifestName);
  EXPECT_EQ(without.find("kernel_choices"), std::string::npos);  // as earlier versions wrote it
  EXPECT_TRUE(load_checkpoint(path, run.store).kernels.empty());
  state.kernels = {{"a GPU", {{"a product", "0123"}, {"another", "4567"}}}, {"another GPU", {{"a product", "89ab"}}}};
  const std::string with = read_all(save_checkpoint(folder.path(), run.store, state, 1) / kManifestName);
  EXPECT_EQ(load_checkpoint(path, run.store).kernels, state.kernels);
  const auto refusal_with = [&](const std::string& part, const std::string& other) {
    std::string text = with;
    write_all(path / kManifestName, text.replace(text.find(part), part.size(), other));
    return load_refusal(path, run.store);
  };
  EXPECT_SAYS(refusal_with("\"0123\"", "7"), "manifest.json: kernel_choices.a GPU.a product: is no string");
  EXPECT_SAYS(refusal_with("\"0123\"", "\"0124\""), "the text was changed after it was written");
  EXPECT_SAYS(refusal_with("\"another GPU\": {", "\"b\": 7, \"another GPU\": {"), "kernel_choices.b: is no object");
  EXPECT_SAYS(refusal_with("\"kernel_choices\": {", "\"kernel_choices\": 7, \"c\": {"), "kernel_choices: is no object");
}

// Five steps, with a save, a new store and a load after the third.
std::uint64_t interrupted_run(const fs::path& directory, SavedRun* state = nullptr) {
  TestRun first(testing::toy_layout()), second(testing::toy_layout());
  first.train(0, 3);
  const fs::path path = save_checkpoint(directory, first.store, {3, 11, 24, ""}, 1);
  const SavedRun restored = load_checkpoint(path, second.store);
  if (state != nullptr) *state = restored;
  second.train(restored.step, 5);
  return second.store.state_hash();
}

TEST(Checkpoint, AResumedRunEqualsTheUninterruptedOne) {
  const TemporaryFolder folder;
  TestRun whole(testing::toy_layout());
  whole.train(0, 5);
  SavedRun state;
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
  SavedRun state;
  {
    const ArmedFaultPoint armed("checkpoint.drop_seed");
    interrupted_run(folder.path(), &state);
    EXPECT_NE(state.seed, 11u);
  }
  const ArmedFaultPoint armed("checkpoint.drop_data_position");
  interrupted_run(folder.path(), &state);
  EXPECT_NE(state.data_position, 24u);
}

TEST(CheckpointWriter, SavesBesideTheStepsThatFollow) {
  const TemporaryFolder folder;
  TestRun run(testing::toy_layout()), honest(testing::toy_layout());
  CheckpointWriter writer(run.store);
  EXPECT_EQ(writer.finish(), fs::path()) << "none was started";
  for (std::uint64_t step = 0; step < 5; ++step) {
    writer.start(folder.path(), at_step(step), 10);  // waits for the one before
    run.train(step, step + 1);
  }
  EXPECT_EQ(writer.finish(), folder / "step-00000004");
  EXPECT_FALSE(writer.running());
  EXPECT_EQ(writer.finish(), fs::path()) << "told once";
  for (std::uint64_t step = 0; step < 5; ++step) {
    TestRun loaded(testing::toy_layout());
    EXPECT_EQ(load_checkpoint(folder / folder_name(step), loaded.store).step, step);
    EXPECT_EQ(bits(loaded.store), bits(honest.store));
    honest.train(step, step + 1);
  }
}

TEST(CheckpointWriter, AFailureIsToldAndTrainingGoesOn) {
  const TemporaryFolder folder;
  TestRun run(testing::toy_layout()), honest(testing::toy_layout());
  honest.train(0, 2);
  CheckpointWriter writer(run.store);
  write_all(folder / "file", "");
  writer.start(folder / "file", at_step(0), 1);
  run.train(0, 1);
  EXPECT_THROW(writer.start(folder.path(), at_step(1), 1), Error);
  EXPECT_EQ(writer.finish(), fs::path());
  writer.start(folder.path(), at_step(1), 1);
  run.train(1, 2);
  EXPECT_EQ(writer.finish(), folder / "step-00000001");
  EXPECT_EQ(bits(run.store), bits(honest.store));
  writer.start(folder / "file", at_step(2), 1);  // its destructor logs
}

}  // namespace
}  // namespace l2l::eps

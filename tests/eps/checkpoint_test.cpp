#include "eps/checkpoint.h"

#include <gtest/gtest.h>

#include "eps/checkpoint_parts.h"
#include "eps/safetensors.h"
#include "tests/eps/fault_points.h"
#include "tests/eps/memory_files.h"
#include "tests/eps/small_checkpoint.h"
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

TEST(Checkpoint, BuffersAreThoseOfTheLargestParameter) {
  EXPECT_GE(checkpoint_buffer_bytes(testing::toy_layout()), checkpoint_buffer_bytes(small_layout()));
  ModelLayout layout = small_layout();
  const Bytes before = checkpoint_buffer_bytes(layout);
  layout.groups[0].parameters[0].shape = {1000, 1000};
  EXPECT_EQ(checkpoint_buffer_bytes(layout) - before, 3u * 4 * (1'000'000 - 6));
}

}  // namespace
}  // namespace l2l::eps

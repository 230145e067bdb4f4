// Checkpoints that several ranks write, each a part, and that any number of ranks loads.
#include <gtest/gtest.h>

#include <set>

#include "base/json.h"
#include "eps/checkpoint/checkpoint_folders.h"
#include "eps/checkpoint/checkpoint_parts.h"
#include "eps/checkpoint/checkpoint_room.h"
#include "eps/checkpoint/manifest.h"
#include "eps/checkpoint/tensor_list.h"
#include "formats/safetensors_shards.h"
#include "tests/eps/fault_points.h"
#include "tests/eps/rank_stores.h"
#include "tests/support/memory_files.h"
#include "tests/support/temporary_folder.h"

namespace l2l::eps {
namespace {

using namespace testing;
using ::l2l::testing::ArmedFaultPoint;
using ::l2l::testing::TemporaryFolder;

constexpr int kCounts[] = {1, 2, 3, 4, 8};

// On every rank the same: each keeps its shards.
void fill_toy(ParameterStore& store) {
  const auto& groups = store.layout().groups;
  float next = 0.5f;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (std::size_t i = 0; i < groups[group].parameters.size(); ++i) {
      const auto count = static_cast<std::size_t>(groups[group].parameters[i].shape.elements());
      std::vector<float> state[3];
      for (std::vector<float>& values : state) {
        for (std::size_t j = 0; j < count; ++j) values.push_back(next = next * 1.01f < 3.0f ? next * 1.01f : 0.01f);
      }
      write_state(store, static_cast<GroupIndex>(group), i, {state[0], state[1], state[2]});
    }
  }
  store.restore(9, std::vector<std::uint64_t>{7, 6, 5, 4, 3});
}

fs::path save_filled(const fs::path& directory, int ranks, const StoreOptions& options = toy_options()) {
  RankStores saved(toy_layout(), ranks, options);
  saved.all([](StoreOfRank& rank) { fill_toy(rank.store()); });
  return saved.save(directory, kState, 2);
}

std::uint64_t hash_of_filled(const StoreOptions& options = toy_options()) {
  TestRun alone(toy_layout(), options);
  fill_toy(alone.store);
  return alone.store.state_hash();
}

// Of the state that `ranks` ranks load.
std::uint64_t loaded_hash(const fs::path& folder, int ranks, const StoreOptions& options = toy_options()) {
  const auto load = [&](ParameterStore& store, StateGather* gather) {
    const SavedRun state = load_checkpoint(folder, store, /*allow_nonfinite=*/false, gather);
    EXPECT_EQ(state.step, kState.step);
    EXPECT_EQ(state.data_position, kState.data_position);
    EXPECT_EQ(store.update_count(0), 7u);
    EXPECT_EQ(store.update_count(4), 3u);
  };
  if (ranks == 1) {
    TestRun alone(toy_layout(), options);
    load(alone.store, nullptr);
    return alone.store.state_hash();
  }
  RankStores loaded(toy_layout(), ranks, options);
  loaded.all([&](StoreOfRank& rank) { load(rank.store(), &rank.gather); });
  return loaded.state_hash();
}

StoreOptions options_with(DType wire, optimizers::MomentFormat moments) {
  StoreOptions options = toy_options();
  options.wire = options.gradients = wire;
  options.moments = {moments, moments};
  return options;
}

TEST(ShardedCheckpoint, AnyNumberOfRanksLoadsWhatAnyOtherSaved) {
  const std::uint64_t expected = hash_of_filled();
  for (const int writers : {2, 3, 4, 8}) {
    const TemporaryFolder folder;
    const fs::path path = save_filled(folder.path(), writers);
    for (const int readers : kCounts) EXPECT_EQ(loaded_hash(path, readers), expected) << writers << " -> " << readers;
  }
  const TemporaryFolder folder;
  TestRun alone(toy_layout());
  fill_toy(alone.store);
  const fs::path path = save_checkpoint(folder.path(), alone.store, kState, 1);
  for (const int readers : kCounts) EXPECT_EQ(loaded_hash(path, readers), expected) << "1 -> " << readers;
}

TEST(ShardedCheckpoint, InEveryFormatOfTheState) {
  StoreOptions lamb = toy_options();
  lamb.optimizer = optimizers::LambSettings();
  for (const StoreOptions& options : {options_with(DType::bf16, optimizers::MomentFormat::bf16),
                                      options_with(DType::f16, optimizers::MomentFormat::f32),
                                      options_with(DType::bf16, optimizers::MomentFormat::int8), lamb}) {
    const TemporaryFolder folder;
    const std::uint64_t expected = hash_of_filled(options);
    EXPECT_EQ(loaded_hash(save_filled(folder.path(), 3, options), 4, options), expected);
  }
}

// Into another format of moments: the conversion reads what a rank has, and no more.
TEST(ShardedCheckpoint, MomentsAreConverted) {
  const StoreOptions int8 = options_with(DType::f32, optimizers::MomentFormat::int8);
  for (const auto& [from, to] : {std::pair(toy_options(), int8), std::pair(int8, toy_options())}) {
    const TemporaryFolder folder;
    const fs::path path = save_filled(folder.path(), 3, from);
    TestRun alone(toy_layout(), to);
    load_checkpoint(path, alone.store);
    EXPECT_EQ(loaded_hash(path, 4, to), alone.store.state_hash());
  }
}

// Negative control of the equal hashes.
TEST(ShardedCheckpoint, AnEmptyPartIsSeen) {
  L2L_NEEDS_FAULT_POINTS();
  const TemporaryFolder folder;
  const fs::path path = save_filled(folder.path(), 3);
  for (const char* const part : {"checkpoint.drop_master", "checkpoint.drop_moments"}) {
    const ArmedFaultPoint armed(part);
    EXPECT_NE(loaded_hash(path, 4), hash_of_filled()) << part;
  }
}

TEST(ShardedCheckpoint, HasTheFilesOfTheFormat) {
  const TemporaryFolder folder;
  const fs::path path = save_filled(folder.path(), 3);
  EXPECT_EQ(entries(path),
            (std::vector<std::string>{"manifest.json", "model-00001-of-00003.safetensors",
                                      "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors",
                                      "model.safetensors.index.json", "optimizer-00001-of-00003.safetensors",
                                      "optimizer-00002-of-00003.safetensors", "optimizer-00003-of-00003.safetensors"}));
  const formats::SafetensorsShards model(path);  // as the index says, of which it checks every word
  const nlohmann::json index = parse_json(testing::read_all(path / formats::kIndexName));
  Bytes bytes = 0;
  std::set<std::string> names;
  for (const GroupSpec& group : toy_layout().groups) {
    std::set<const formats::SafetensorsFile*> files;  // a group is in one file
    for (const ParameterSpec& parameter : group.parameters) {
      const formats::ShardedTensor tensor = model.find(parameter.name);
      ASSERT_NE(tensor.entry, nullptr) << parameter.name;
      EXPECT_EQ(tensor.entry->shape, parameter.shape);
      EXPECT_EQ(index["weight_map"][parameter.name], tensor.file->path().filename().string());
      bytes += tensor.entry->end - tensor.entry->begin;
      files.insert(tensor.file);
    }
    EXPECT_EQ(files.size(), 1u) << group.name;
  }
  EXPECT_EQ(index["metadata"]["total_size"], bytes);
}

TEST(ShardedCheckpoint, HasTheSizeThatWasSaidBefore) {
  for (const int ranks : {2, 3, 8}) {
    const TemporaryFolder folder;
    const fs::path path = save_filled(folder.path(), ranks);
    const std::vector<int> writers =
        ParameterStore::writers(toy_layout(), RankStores(toy_layout(), ranks)[0].run.options);
    const CheckpointSize size = checkpoint_size(toy_layout(), state_types(toy_options()), false, writers, ranks);
    Bytes model = 0, optimizer = 0, largest = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const Bytes of_model = fs::file_size(path / model_name(rank, ranks));
      const Bytes of_optimizer = fs::file_size(path / optimizer_name(rank, ranks));
      model += of_model, optimizer += of_optimizer;
      largest = std::max({largest, of_model, of_optimizer});
    }
    EXPECT_EQ(size.model, model);
    EXPECT_EQ(size.optimizer, optimizer);
    EXPECT_EQ(size.largest, largest);
  }
}

// Each rank asks for the memory that it says, in which the groups fit that it brings together.
TEST(ShardedCheckpoint, ARankHasRoomForTheLargestGroupThatItWrites) {
  for (const int count : {2, 3, 4}) {
    RankStores ranks(toy_layout(), count);
    Bytes most = 0;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const StoreOptions& options = ranks[rank].run.options;
      const Bytes room = ParameterStore::bytes_needed(toy_layout(), options).gathered;
      EXPECT_EQ(room, ranks[rank].run.memory.total_for("state of a group"));
      if (rank == 0) most = room;
      EXPECT_LE(room, most) << "rank 0 reads all groups";
    }
  }
}

TEST(GroupWriters, AreEvenAndSpareTheFirst) {
  const std::vector<Bytes> blocks(12, 100);
  for (const int ranks : {1, 2, 3, 4, 5, 12, 16}) {
    std::vector<Bytes> groups = blocks;
    groups.front() = 250;  // a table
    const std::vector<int> writers = group_writers(groups, ranks);
    std::vector<Bytes> loads(static_cast<std::size_t>(ranks), 0);
    for (std::size_t i = 0; i < groups.size(); ++i) loads.at(static_cast<std::size_t>(writers[i])) += groups[i];
    EXPECT_EQ(std::ranges::min(loads), loads[0]);
    // Whoever has most could not have done without its last group.
    EXPECT_LE(std::ranges::max(loads), std::max<Bytes>(250, loads[0] + 100)) << ranks;
    EXPECT_EQ(writers, group_writers(groups, ranks));
  }
}

std::string read_file(const fs::path& file) { return testing::read_all(file); }

// Whatever is damaged, one rank finds it and none loads; as one process does.
TEST(ShardedCheckpoint, DamageIsFoundByOneAndRefusedByAll) {
  const TemporaryFolder folder;
  RankStores saved(small_layout(), 3), loaded(small_layout(), 3);
  saved.all([](StoreOfRank& rank) { testing::fill(rank.store()); });
  const fs::path path = saved.save(folder.path(), kState, 1);
  const std::uint64_t before = loaded.state_hash();
  const auto load = [&](StoreOfRank& rank) { load_checkpoint(path, rank.store(), false, &rank.gather); };
  std::size_t damaged = 0;
  std::set<std::string> finders;
  for (const std::string& name : entries(path)) {
    const std::string sound = read_file(path / name);
    for (std::size_t at = 0; at < sound.size(); at += 1 + sound.size() / 60) {
      std::string bytes = sound;
      bytes[at] = static_cast<char>(bytes[at] ^ 1);
      write_all(path / name, bytes);
      const std::vector<std::string> thrown = loaded.together(load);
      for (const std::string& message : thrown) ASSERT_NE(message, "") << name << ", byte " << at;
      finders.insert(thrown[0].starts_with("rank ") ? thrown[0].substr(0, 6) : "rank 0");
      ++damaged;
    }
    write_all(path / name, sound);
  }
  EXPECT_EQ(loaded.state_hash(), before) << "nothing is half loaded";
  EXPECT_EQ(finders, (std::set<std::string>{"rank 0", "rank 1", "rank 2"})) << "they share the work";
  loaded.all(load);
  EXPECT_EQ(loaded.state_hash(), saved.state_hash());
  EXPECT_GT(damaged, 300u);
}

// Changes the manifest as somebody could who knows the hashes.
std::string refusal_of(const fs::path& folder, const std::function<void(Manifest&)>& change) {
  const std::string text = read_file(folder / kManifestName);
  Manifest manifest = read_manifest(folder);
  change(manifest);
  write_all(folder / kManifestName, to_text(manifest));
  TestRun loaded(toy_layout());
  std::string said = load_refusal(folder, loaded.store);
  write_all(folder / kManifestName, text);
  return said;
}

TEST(ShardedCheckpoint, OnlyItsOwnFilesMayBeNamed) {
  const TemporaryFolder folder;
  const fs::path path = save_filled(folder.path(), 3);
  EXPECT_EQ(refusal_of(path, [](Manifest&) {}), "(loaded)");
  for (const char* const name :
       {"model-00004-of-00003.safetensors", "model-00000-of-00003.safetensors", "model-1-of-3.safetensors",
        "model-00001-of-00003.safetensors.bak", "Model-00001-of-00003.safetensors", "model-00001-of-00001.safetensors",
        "model-00001-of-00065.safetensors", "model--0001-of-00003.safetensors", "../model-00001-of-00003.safetensors",
        "model- 0001-of-00003.safetensors", "other.json"}) {
    EXPECT_SAYS(refusal_of(path, [&](Manifest& m) { m.files[name] = {}; }), "is no file of a checkpoint") << name;
  }
  for (const char* const name : {"model-00001-of-00004.safetensors", "model.safetensors"}) {
    EXPECT_SAYS(refusal_of(path, [&](Manifest& m) { m.files[name] = {}; }), "as others are") << name;
  }
  for (const std::string& name :
       {model_name(1, 3), optimizer_name(2, 3), std::string("model.safetensors.index.json")}) {
    EXPECT_SAYS(refusal_of(path, [&](Manifest& m) { m.files.erase(name); }), name + ": is not in the manifest");
    EXPECT_SAYS(refusal_of(path, [&](Manifest& m) { ++m.files[name].bytes; }), "the manifest says");
  }
  const fs::path of_one = folder / "one";
  TestRun alone(toy_layout());
  fill_toy(alone.store);
  const fs::path single = save_checkpoint(of_one, alone.store, kState, 1);
  EXPECT_SAYS(refusal_of(single, [](Manifest& m) { m.files["model.safetensors.index.json"] = {}; }),
              "is no file of a checkpoint of one process");
}

TEST(ShardedCheckpoint, APartOfAnotherCheckpointIsRefused) {
  const TemporaryFolder folder, elsewhere;
  const fs::path path = save_filled(folder.path(), 3);
  RankStores others(toy_layout(), 3);  // the initial state
  const fs::path other = others.save(elsewhere.path(), kState, 1);
  for (const std::string& name : entries(path)) {
    if (name == kManifestName || name == formats::kIndexName) continue;
    const std::string sound = read_file(path / name);
    fs::copy_file(other / name, path / name, fs::copy_options::overwrite_existing);
    TestRun loaded(toy_layout());
    EXPECT_SAYS(load_refusal(path, loaded.store), "was changed after it was written");
    write_all(path / name, sound);
  }
}

// Paths in a config may be others on each rank.
TEST(ShardedCheckpoint, HasTheConfigOfTheFirst) {
  const TemporaryFolder folder;
  RankStores ranks(toy_layout(), 3);
  ranks.all([&](StoreOfRank& rank) {
    SavedRun state = kState;
    state.config = "rank " + std::to_string(rank.index());
    save_on_ranks(folder.path(), rank.store(), rank.store().begin_save(), state, 1, {}, rank.gather);
  });
  EXPECT_EQ(read_manifest(find_checkpoint(folder.path())).state.config, "rank 0");
}

TEST(ShardedCheckpoint, AFileThatIsMissingMakesItIncomplete) {
  const TemporaryFolder folder;
  RankStores saved(toy_layout(), 3);
  const fs::path old = saved.save(folder.path(), at_step(1), 9), path = saved.save(folder.path(), at_step(2), 9);
  for (const std::string& name : entries(path)) {
    const std::string sound = read_file(path / name);
    fs::remove(path / name);
    EXPECT_EQ(find_checkpoint(folder.path()), old) << name;
    write_all(path / name, sound);
    EXPECT_EQ(find_checkpoint(folder.path()), path) << name;
  }
}

TEST(ShardedCheckpoint, OlderOnesArePrunedAndTheSameStepIsReplaced) {
  const TemporaryFolder folder;
  RankStores saved(toy_layout(), 3);
  for (std::uint64_t step = 1; step <= 4; ++step) saved.save(folder.path(), at_step(step), 2);
  saved.save(folder.path(), at_step(4), 2);
  EXPECT_EQ(entries(folder.path()), (std::vector<std::string>{"step-00000003", "step-00000004"}));
  TestRun alone(toy_layout());
  fill_toy(alone.store);
  const fs::path path = save_checkpoint(folder.path(), alone.store, at_step(4), 2);  // by another number of ranks
  EXPECT_EQ(entries(path).size(), 3u);
  EXPECT_EQ(loaded_hash(save_filled(folder.path(), 2), 3), hash_of_filled());
}

TEST(ShardedCheckpoint, ACorruptStateOfOneRankIsSavedByNone) {
  const TemporaryFolder folder;
  RankStores ranks(toy_layout(), 3);
  const fs::path old = ranks.save(folder.path(), at_step(1), 2);
  const auto [begin, end] = ranks[2].store().owned(kBlock0, 1);
  ASSERT_LT(begin, end);
  ranks[2].store().raw_moment(kBlock0, 1, StatePart::moment1).codes[5] ^= std::byte{4};
  const std::vector<std::string> thrown = ranks.try_save(folder.path(), at_step(2), 2);
  EXPECT_SAYS(thrown[2], "group h.0: the first moment of h.0.fc.weight");
  for (const std::size_t rank : {0u, 1u}) EXPECT_SAYS(thrown[rank], "rank 2: step 0: group h.0: the first moment");
  EXPECT_EQ(entries(folder.path()), std::vector<std::string>{"step-00000001"});
  EXPECT_EQ(find_checkpoint(folder.path()), old);
}

// The rounds of a save hand out one group at most for each writer, and every group once.
TEST(StateSaveOfRanks, HandsOutOneGroupForEachWriter) {
  StoreOptions options = toy_options();
  options.rank = {0, 2};
  TestRun run(toy_layout(), options);
  StateSave save = run.store.begin_save();
  std::set<GroupIndex> all;
  while (true) {
    const std::vector<GroupIndex> groups = save.next_of_each_writer();
    if (groups.empty()) break;
    std::set<int> writers;
    for (const GroupIndex group : groups) {
      EXPECT_TRUE(writers.insert(run.store.writer(group)).second);
      EXPECT_TRUE(all.insert(group).second);
    }
    save.release();
  }
  EXPECT_EQ(all.size(), toy_layout().groups.size());
}

TEST(ProbeFolder, IsSeenAndGone) {
  const TemporaryFolder folder;
  const fs::path directory = folder / "a/b";
  {
    const ProbeFolder probe(directory, DirectoryUse::look);
    EXPECT_NO_THROW(check_probe(directory, probe.name(), {}));
    EXPECT_SAYS(bad_input([&] { check_probe(folder / "elsewhere", probe.name(), {}); }),
                "is not seen here, but every process writes its part of a checkpoint there; set a directory on a disk");
  }
  EXPECT_FALSE(fs::exists(folder / "a"));
  { const ProbeFolder probe(directory, DirectoryUse::stay); }
  EXPECT_EQ(entries(directory), std::vector<std::string>{});
}

}  // namespace
}  // namespace l2l::eps

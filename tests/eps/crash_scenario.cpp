#include "tests/eps/crash_scenario.h"

#include <algorithm>

#include "core/files.h"
#include "core/hash.h"
#include "eps/checkpoint/checkpoint_folders.h"
#include "tests/support/locked_disk.h"
#include "tests/support/parameter_state.h"

namespace l2l::eps::testing {

namespace {

using ::l2l::testing::DiskFault;
using ::l2l::testing::FailingDisk;
using ::l2l::testing::LockedDisk;
using ::l2l::testing::MemoryDisk;
using ::l2l::testing::PowerLoss;

Saved load(const fs::path& folder) {
  static TestRun loaded(small_layout());
  const SavedRun state = load_checkpoint(folder, loaded.store);
  return {state.step, loaded.store.state_hash()};
}

// All that load, below the directory and what was set aside.
std::set<Saved> whole_checkpoints() {
  std::set<Saved> found;
  std::vector<fs::path> directories = {kDirectory};
  for (const fs::path& path : list_folder(kDirectory)) {
    if (path.filename().string().starts_with("earlier-")) directories.push_back(path);
  }
  for (const fs::path& directory : directories) {
    for (const CheckpointFolder& folder : list_checkpoints(directory)) {
      try {
        found.insert(load(folder.path));
      } catch (const CorruptFile&) {
      }
    }
  }
  return found;
}

std::string show(const Saved& saved) {
  return "step " + std::to_string(saved.step) + " (" + to_hex(saved.hash).substr(0, 6) + ")";
}

// A new save works and leaves nothing but itself and what was set aside.
std::string problem_of_next_save() {
  static TestRun run(small_layout());
  change(run.store, 1'000'000);
  save_checkpoint(kDirectory, run.store, run.store.begin_save(), at_step(100), 1);
  const std::optional<Saved> found = resume(kDirectory);
  if (found != Saved{100, run.store.state_hash()}) return "the next save is not found";
  for (const fs::path& path : list_folder(kDirectory)) {
    const std::string name = path.filename().string();
    if (name != "step-00000100" && !name.starts_with("earlier-")) return name + " is left after the next save";
  }
  return "";
}

}  // namespace

void change(ParameterStore& store, std::uint64_t version) {
  float next = static_cast<float>(version);
  const auto& groups = store.layout().groups;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (std::size_t i = 0; i < groups[group].parameters.size(); ++i) {
      std::vector<float> state[3];
      for (std::vector<float>& values : state) {
        values.resize(static_cast<std::size_t>(groups[group].parameters[i].shape.elements()));
        for (float& value : values) value = next += 0.5f;
      }
      write_state(store, static_cast<GroupIndex>(group), i, {state[0], state[1], state[2]});
    }
  }
}

std::optional<Saved> resume(const fs::path& directory) {
  try {
    for (const fs::path& folder : find_checkpoints(directory)) {
      try {
        return load(folder);
      } catch (const CorruptFile&) {
      }
    }
  } catch (const BadInput&) {
  }
  return std::nullopt;
}

CrashScenario::CrashScenario(int ranks) {
  if (ranks == 1) run_ = std::make_unique<TestRun>(small_layout());
  if (ranks > 1) ranks_ = std::make_unique<RankStores>(small_layout(), ranks);
  promise({});
  disk_.make_folder("/data");  // as a process that was killed before it synced "/"
}

void CrashScenario::promise(Promise promise) {
  promise.from = disk_.operations();
  promise.kept.insert(aside_.begin(), aside_.end());
  promises_.push_back(std::move(promise));
}

void CrashScenario::change_state() {
  const std::uint64_t version = 1000 * ++version_;
  if (run_) return change(run_->store, version);
  ranks_->all([&](StoreOfRank& rank) { change(rank.store(), version); });
}

std::uint64_t CrashScenario::state_hash() { return run_ ? run_->store.state_hash() : ranks_->state_hash(); }

void CrashScenario::save_state(std::uint64_t step, int keep) {
  if (run_) {
    save_checkpoint(kDirectory, run_->store, run_->store.begin_save(), at_step(step), keep);
    return;
  }
  const std::vector<std::string> thrown = ranks_->try_save(kDirectory, at_step(step), keep);
  if (!thrown[0].empty()) throw Error(thrown[0]);
}

std::size_t CrashScenario::save(std::uint64_t step, int keep, std::size_t killed_at) {
  change_state();
  const Saved saved{step, state_hash()};

  Promise during = promises_.back();
  during.newest.insert(saved);
  std::vector<Saved> after;  // of those that are there
  for (const Saved& old : there_) {
    if (old.step != step) after.push_back(old);
  }
  while (after.size() >= static_cast<std::size_t>(keep)) after.erase(after.begin());
  during.kept = {after.begin(), after.end()};
  promise(during);

  FailingDisk disk(disk_, {killed_at, EIO, true});
  LockedDisk of_all(([&]() -> FileSystem& { return disk; }));
  FileSystemOverride replaced(of_all);
  try {
    save_state(step, keep);
  } catch (const Error&) {
    if (killed_at == 0) throw;
  }
  if (killed_at != 0 && killed_at <= disk.calls()) {
    there_ = after;  // those that neither this nor the next one removes
    return disk.calls();
  }
  there_ = std::move(after);
  there_.push_back(saved);
  promise({0, {saved}, false, {there_.begin(), there_.end()}});
  return disk.calls();
}

void CrashScenario::set_aside(std::int64_t steps) {
  Promise during = promises_.back(), after;
  std::vector<Saved> stay;
  for (const Saved& saved : there_) {
    if (static_cast<std::int64_t>(saved.step) <= steps) {
      stay.push_back(saved);
      after.newest = {saved};
    } else {
      aside_.insert(saved);
    }
    during.newest.insert(saved);
  }
  during.perhaps_none = after.perhaps_none = stay.empty();
  during.kept = after.kept = {stay.begin(), stay.end()};
  promise(during);
  FileSystemOverride replaced(disk_);
  eps::set_aside(kDirectory, steps);
  there_ = std::move(stay);
  promise(after);
}

void CrashScenario::leave_stale_folder() {
  FileSystemOverride replaced(disk_);
  const fs::path folder = temporary_folder(kDirectory, 77);
  make_folder(folder);
  OutputFile file(folder / "model.safetensors");
  file.write("half of a model");
}

const CrashScenario::Promise& CrashScenario::promised(std::size_t operations) const {
  auto promise = promises_.rbegin();
  while (promise->from > operations) ++promise;
  return *promise;
}

std::string CrashScenario::problem(const PowerLoss& loss) const {
  const Promise& promise = promised(loss.operations);
  MemoryDisk disk(disk_, loss);
  FileSystemOverride replaced(disk);
  try {
    const std::optional<Saved> found = resume(kDirectory);
    if (!found && !promise.perhaps_none) return "nothing can be loaded";
    if (found && promise.newest.count(*found) == 0) return show(*found) + " is found";
    if (!promise.kept.empty()) {
      const std::set<Saved> whole = whole_checkpoints();
      for (const Saved& saved : promise.kept) {
        if (whole.count(saved) == 0) return show(saved) + " is lost";
      }
    }
    return problem_of_next_save();
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace l2l::eps::testing

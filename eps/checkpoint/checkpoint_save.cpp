#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "core/activity.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/log.h"
#include "eps/checkpoint/checkpoint.h"
#include "eps/checkpoint/checkpoint_folders.h"
#include "eps/checkpoint/checkpoint_parts.h"
#include "eps/checkpoint/manifest.h"
#include "eps/checkpoint/share_writer.h"
#include "eps/checkpoint/tensor_list.h"
#include "formats/safetensors_shards.h"
#include "formats/safetensors_writer.h"
#include "l2l/errors.h"

namespace l2l::eps {

namespace {

// Groups are released to training one by one, before anything waits for the disk.
void write_groups(ShareWriter& files, const ParameterStore& store, StateSave save) {
  while (const std::optional<GroupIndex> group = save.next()) {
    files.write(*group, store.update_count(*group));
    store.check_state(*group);  // after the last read: what was written is what the checksums were taken of
    note_progress();
  }
}

// The large files, and what the manifest says of them.
Manifest write_all(const std::filesystem::path& folder, const ParameterStore& store, StateSave save,
                   const SavedRun& state) {
  ShareWriter files(folder, store, state);
  write_groups(files, store, std::move(save));
  return files.finish();
}

// Of several ranks: the groups whose writer is this one, from all. A rank that fails to write takes part until all know
// that, which is what false says.
class RankShare {
 public:
  RankShare(const std::filesystem::path& folder, const ParameterStore& store, const SavedRun& state,
            StateGather& gather)
      : store_(store), gather_(gather) {
    attempt([&] {
      note_progress();
      files_.emplace(folder, store, state, gather.place());
    });
  }

  bool write(StateSave save) {
    while (true) {
      const std::vector<GroupIndex> round = gather_.next_round(save);
      if (round.empty()) break;
      const bool all_go_on = gather_.gather_round(round, failure_ != nullptr);
      const auto own = std::ranges::find(round, gather_.place().index, [&](GroupIndex g) { return store_.writer(g); });
      const std::uint64_t updates = own == round.end() ? 0 : store_.update_count(*own);
      save.release();  // what others write is sent, what this rank writes is copied
      if (!all_go_on) return false;
      attempt([&] {
        if (own != round.end()) files_->write(*own, updates);
        note_progress();
      });
    }
    return true;
  }

  // Throws what this rank has failed with.
  void check() const {
    if (failure_) std::rethrow_exception(failure_);
  }
  Manifest finish() { return files_->finish(); }

 private:
  template <typename Step>
  void attempt(const Step& step) {
    try {
      if (!failure_) step();
    } catch (const std::exception&) {
      failure_ = std::current_exception();
    }
  }

  const ParameterStore& store_;
  StateGather& gather_;
  std::optional<ShareWriter> files_;
  std::exception_ptr failure_;
};

// What a manifest says of this rank's part; nothing where another rank has failed.
std::string write_share(const std::filesystem::path& folder, const ParameterStore& store, StateSave save,
                        const SavedRun& state, StateGather& gather) {
  RankShare share(folder, store, state, gather);
  const bool all = share.write(std::move(save));
  gather.end_rounds();
  share.check();
  if (!all) return "";
  const Manifest manifest = share.finish();
  note_progress();
  return to_text(manifest);
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  OutputFile output(path);
  output.write(text);
  output.finish();
}

// A file that cannot be read, or not to its end, is left out.
void carry(const std::filesystem::path& from, const std::filesystem::path& to) {
  try {
    copy_bytes(from, to);
  } catch (const BadInput& error) {  // of `from`; a disk that takes no more is an Error of another class
    log(LogLevel::warning, std::string(error.what()) + "; the checkpoint is written without it");
    remove_folder(to);
  }
}

// What is not of parameters; then all of the folder is on the disk.
void finish_folder(const std::filesystem::path& folder, const Manifest& manifest, const Companions& companions) {
  write_companions(folder, companions);
  write_manifest(folder, manifest);
  sync_folder(folder);
}

std::filesystem::path make_temporary_folder(const std::filesystem::path& directory, std::uint64_t step) {
  make_folders(directory);
  remove_stale(directory);
  const std::filesystem::path temporary = temporary_folder(directory, step);
  make_folder(temporary);
  return temporary;
}

// Of the parts that ranks have written, and the index, which it writes.
Manifest join(const std::filesystem::path& folder, const ParameterStore& store, const std::vector<std::string>& parts) {
  Manifest all;
  std::map<std::string, std::string> file_of_tensor;
  Bytes bytes = 0;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    Manifest part = parse_manifest(parts[rank], folder / kManifestName);
    if (rank == 0) all.state = std::move(part.state);
    all.files.merge(part.files);
    all.tensors.merge(part.tensors);
    all.update_counts.merge(part.update_counts);
    const int writer = static_cast<int>(rank), ranks = static_cast<int>(parts.size());
    const TensorList list(store.layout(), state_types(store), kModelParts, all.state.without_frozen,
                          {writer, store.writers()});
    for (const formats::TensorToWrite& tensor : list.tensors) {
      file_of_tensor[tensor.name] = model_name(writer, ranks);
      bytes += formats::bytes_of(tensor);
    }
  }
  const std::string index = formats::index_text(file_of_tensor, bytes);
  write_text(folder / formats::kIndexName, index);
  all.files[formats::kIndexName] = {index.size(), hash_of(index)};
  return all;
}

}  // namespace

std::filesystem::path save_on_ranks(const std::filesystem::path& directory, const ParameterStore& store, StateSave save,
                                    const SavedRun& state, int keep, const Companions& companions,
                                    StateGather& gather) {
  // What rank 0 does and says while the others wait.
  const auto by_first = [&](const std::function<std::filesystem::path()>& body) {
    const auto on_rank = [&] {
      note_progress();
      return gather.first() ? body().filename().string() : "";
    };
    return gather.together(on_rank).front();
  };
  const std::filesystem::path temporary =
      directory / by_first([&] { return make_temporary_folder(directory, state.step); });
  try {
    const std::vector<std::string> parts =
        gather.together([&] { return write_share(temporary, store, std::move(save), state, gather); });
    const auto commit = [&] {
      finish_folder(temporary, join(temporary, store, parts), companions);
      note_progress();
      const std::filesystem::path folder = publish(directory, temporary, state.step);
      note_progress();
      prune(directory, folder, keep);
      return folder;
    };
    return directory / by_first(commit);
  } catch (...) {  // on all: no rank ends, and with it perhaps the others, before that is done
    by_first([&] {
      remove_stale(directory);
      return directory;
    });
    throw;
  }
}

void write_companions(const std::filesystem::path& folder, const Companions& companions) {
  for (const auto& [name, text] : companions.texts) write_text(folder / name, text);
  for (const auto& [name, file] : companions.copies) carry(file, folder / name);
}

std::filesystem::path save_checkpoint(const std::filesystem::path& directory, const ParameterStore& store,
                                      StateSave save, const SavedRun& state, int keep, const Companions& companions) {
  const std::filesystem::path temporary = make_temporary_folder(directory, state.step);
  try {
    finish_folder(temporary, write_all(temporary, store, std::move(save), state), companions);
    const std::filesystem::path folder = publish(directory, temporary, state.step);
    prune(directory, folder, keep);
    return folder;
  } catch (...) {
    remove_stale(directory);  // logs its own errors; the one that led here is reported
    throw;
  }
}

}  // namespace l2l::eps

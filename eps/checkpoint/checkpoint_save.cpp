#include <algorithm>
#include <exception>
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
#include "eps/checkpoint/tensor_list.h"
#include "eps/group_memory.h"
#include "formats/safetensors_writer.h"
#include "l2l/errors.h"

namespace l2l::eps {

namespace {

// One file with some parts of every parameter, written group by group in any order.
class PartsFile {
 public:
  PartsFile(const std::filesystem::path& path, const ParameterStore& store, std::span<const StatePart> parts,
            bool without_frozen)
      : name_(path.filename().string()),
        store_(store),
        parts_(parts),
        without_frozen_(without_frozen),
        list_(store.layout(), state_types(store), parts, without_frozen),
        file_(path, list_.tensors, checkpoint_metadata()) {}

  // Adds the hash of each tensor to `hashes`.
  void write(GroupIndex group, std::span<float> buffer, std::map<std::string, std::uint64_t>& hashes) {
    const std::vector<ParameterSpec>& parameters = store_.layout().groups[static_cast<std::size_t>(group)].parameters;
    tensor_ = list_.first[static_cast<std::size_t>(group)];
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      for (const StatePart part : parts_) {
        if (!has_part(parameters[i], part) || (without_frozen_ && !parameters[i].trained)) continue;
        if (!parameters[i].trained) {
          write_whole(store_.wire(group, i), hashes);
        } else if (part == StatePart::master) {
          write_master(group, i, buffer, hashes);
        } else {
          write_moment(store_.raw_moment(group, i, part), hashes);
        }
      }
    }
  }

  void finish(Manifest& manifest) {
    file_.finish();
    manifest.files[name_] = {file_.bytes(), file_.header_hash()};
  }

 private:
  void write_master(GroupIndex group, std::size_t parameter, std::span<float> buffer,
                    std::map<std::string, std::uint64_t>& hashes) {
    Hash64 hash;
    for_each_piece(list_.tensors[tensor_].shape.elements(), buffer, [&](std::int64_t first, std::span<float> values) {
      store_.read(group, parameter, StatePart::master, first, values);
      hash.update(std::as_bytes(values));
      file_.write(tensor_, first, std::as_bytes(values));
    });
    hashes[list_.tensors[tensor_++].name] = hash.value();
  }

  void write_moment(const RawMoment& moment, std::map<std::string, std::uint64_t>& hashes) {
    write_whole(moment.codes, hashes);
    if (moment.format == optimizers::MomentFormat::int8) write_whole(std::as_bytes(moment.scales), hashes);
  }

  void write_whole(std::span<const std::byte> elements, std::map<std::string, std::uint64_t>& hashes) {
    Hash64 hash;
    hash.update(elements);
    file_.write(tensor_, 0, elements);
    hashes[list_.tensors[tensor_++].name] = hash.value();
  }

  const std::string name_;
  const ParameterStore& store_;
  const std::span<const StatePart> parts_;
  const bool without_frozen_;
  const TensorList list_;
  formats::SafetensorsWriter file_;
  std::size_t tensor_ = 0;  // the next to be written
};

// Groups are released to training one by one, before anything waits for the disk.
void write_groups(PartsFile& model, PartsFile& optimizer, const ParameterStore& store, StateSave save,
                  StateGather* gather, Manifest& manifest) {
  std::vector<float> buffer(kPiece);
  while (const std::optional<GroupIndex> group = save.next()) {
    if (gather != nullptr) {
      gather->announce(*group);
      gather->gather(*group);
    }
    model.write(*group, buffer, manifest.tensors);
    optimizer.write(*group, buffer, manifest.tensors);
    store.check_state(*group);  // after the last read: what was written is what the checksums were taken of
    note_progress();
    const std::string& name = store.layout().groups[static_cast<std::size_t>(*group)].name;
    manifest.update_counts[name] = store.update_count(*group);
  }
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  OutputFile output(path);
  output.write(text);
  output.finish();
}

void copy_bytes(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::optional<InputFile> source;
  try {
    source.emplace(from);
  } catch (const Error& error) {
    log(LogLevel::warning, std::string(error.what()) + "; the checkpoint is written without it");
    return;
  }
  OutputFile output(to);
  std::vector<std::byte> buffer(kPiece);
  for (Bytes offset = 0; offset < source->bytes(); offset += buffer.size()) {
    const std::span<std::byte> piece =
        std::span(buffer).first(std::min<Bytes>(buffer.size(), source->bytes() - offset));
    source->read(offset, piece);
    output.write(piece);
  }
  output.finish();
}

void write_files(const std::filesystem::path& folder, const ParameterStore& store, StateSave save, StateGather* gather,
                 const RunState& state, const Companions& companions) {
  Manifest manifest;
  manifest.state = state;
  const bool without_frozen = state.without_frozen;
  PartsFile model(folder / kModelName, store, kModelParts, without_frozen);
  PartsFile optimizer(folder / kOptimizerName, store, optimizer_parts(store.moments()), without_frozen);
  write_groups(model, optimizer, store, std::move(save), gather, manifest);
  if (gather != nullptr) gather->end_groups();
  model.finish(manifest);
  optimizer.finish(manifest);
  write_companions(folder, companions);
  write_text(folder / kManifestName, to_text(manifest));
  sync_folder(folder);
}

// What rank 0 has written, or nothing where that failed, of which it then says more.
std::filesystem::path follow_save(StateSave save, StateGather& gather) {
  while (const std::optional<GroupIndex> group = gather.announced()) {
    save.next(*group);
    gather.gather(*group);
    note_progress();
  }
  save.finish();
  return gather.from_first("");
}

}  // namespace

std::filesystem::path save_on_ranks(const std::filesystem::path& directory, const ParameterStore& store, StateSave save,
                                    const RunState& state, int keep, const Companions& companions,
                                    StateGather& gather) {
  if (!gather.first()) return follow_save(std::move(save), gather);
  gather.begin_groups();
  std::filesystem::path folder;
  std::exception_ptr failure;
  try {
    folder = save_checkpoint(directory, store, std::move(save), state, keep, companions, &gather);
  } catch (...) {
    failure = std::current_exception();
  }
  gather.end_groups();
  gather.from_first(folder.string());
  if (failure) std::rethrow_exception(failure);
  return folder;
}

void write_companions(const std::filesystem::path& folder, const Companions& companions) {
  for (const auto& [name, text] : companions.texts) write_text(folder / name, text);
  for (const std::filesystem::path& file : companions.copies) copy_bytes(file, folder / file.filename());
}

std::filesystem::path save_checkpoint(const std::filesystem::path& directory, const ParameterStore& store,
                                      StateSave save, const RunState& state, int keep, const Companions& companions,
                                      StateGather* gather) {
  make_folders(directory);
  remove_stale(directory);
  const std::filesystem::path temporary = temporary_folder(directory, state.step);
  make_folder(temporary);
  try {
    write_files(temporary, store, std::move(save), gather, state, companions);
    const std::filesystem::path folder = publish(directory, temporary, state.step);
    prune(directory, folder, keep);
    return folder;
  } catch (...) {
    remove_stale(directory);  // logs its own errors; the one that led here is reported
    throw;
  }
}

}  // namespace l2l::eps

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "core/fault_point.h"
#include "core/files.h"
#include "core/log.h"
#include "eps/checkpoint/checkpoint.h"
#include "eps/checkpoint/checkpoint_locks.h"
#include "eps/checkpoint/checkpoint_parts.h"
#include "eps/checkpoint/manifest.h"
#include "eps/checkpoint/moment_tensors.h"
#include "formats/safetensors.h"
#include "formats/safetensors_header.h"
#include "formats/safetensors_shards.h"
#include "l2l/errors.h"

namespace l2l::eps {

namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& reason) {
  throw CorruptFile(path.string(), reason);
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& tensor, const std::string& reason) {
  refuse(path, "tensor " + formats::show_name(tensor) + ": " + reason);
}

// Files of one kind: weights, or moments. The only one, or the folder.
const std::filesystem::path& place_of(const formats::SafetensorsShards& files) {
  return files.files().size() == 1 ? files.files().front().path() : files.directory();
}

const ManifestFile& check_size(const std::filesystem::path& folder, const std::string& name, const Manifest& manifest) {
  const std::filesystem::path path = folder / name;
  const auto stated = manifest.files.find(name);
  if (stated == manifest.files.end()) refuse(path, "is not in the manifest");
  const Bytes bytes = InputFile(path).bytes();
  if (bytes == stated->second.bytes) return stated->second;
  if (name != formats::kIndexName) {
    static_cast<void>(formats::SafetensorsFile(path));  // throws naming the tensor that is cut, if it can tell
  }
  refuse(path, "has " + std::to_string(bytes) + " bytes; the manifest says " + std::to_string(stated->second.bytes));
}

// Whose sizes are those of the manifest, all of them checked first.
formats::SafetensorsShards open_files(const std::filesystem::path& folder, const std::vector<std::string>& names,
                                      const Manifest& manifest) {
  for (const std::string& name : names) check_size(folder, name, manifest);
  return {folder, names};
}

// Other programs read it.
void check_index(const std::filesystem::path& folder, const Manifest& manifest) {
  if (manifest.ranks == 1) return;
  const ManifestFile& stated = check_size(folder, formats::kIndexName, manifest);
  const InputFile file(folder / formats::kIndexName);
  if (file.hash(0, file.bytes()) != stated.header) refuse(file.path(), "was changed after it was written (checksum)");
}

void check_headers(const formats::SafetensorsShards& files, const Manifest& manifest) {
  for (const formats::SafetensorsFile& file : files.files()) {
    if (file.header_hash() == manifest.files.at(file.path().filename().string()).header) continue;
    refuse(file.path(), "header: was changed after it was written (checksum)");
  }
}

// The tensors whose bytes one of several ranks verifies: about as many bytes as every other one.
class VerifiedShare {
 public:
  VerifiedShare(Rank place, Bytes all)
      : rank_(static_cast<Bytes>(place.index)), bytes_(all / static_cast<Bytes>(place.count) + 1) {}
  // Call for all tensors, on all ranks in the same order.
  bool has(const formats::TensorEntry& tensor) {
    const Bytes begin = std::exchange(done_, done_ + (tensor.end - tensor.begin));
    return begin / bytes_ == rank_;
  }

 private:
  const Bytes rank_, bytes_;
  Bytes done_ = 0;
};

std::vector<formats::ShardedTensor> own_tensors(const formats::SafetensorsShards& files, VerifiedShare& share) {
  std::vector<formats::ShardedTensor> own;
  for (const formats::SafetensorsFile& file : files.files()) {
    for (const formats::TensorEntry& tensor : file.tensors()) {
      if (share.has(tensor)) own.push_back({&file, &tensor});
    }
  }
  return own;
}

// Checks that no byte was changed.
void check_hashes(const std::vector<formats::ShardedTensor>& tensors, const Manifest& manifest) {
  for (const auto& [file, tensor] : tensors) {
    const auto saved = manifest.tensors.find(tensor->name);
    if (saved == manifest.tensors.end()) refuse(file->path(), tensor->name, "was not saved");
    if (file->hash(*tensor) != saved->second) {
      refuse(file->path(), tensor->name, "was changed after it was written (checksum)");
    }
  }
}

formats::ShardedTensor check_tensor(const formats::SafetensorsShards& files, const std::string& name,
                                    const Shape& shape) {
  const formats::ShardedTensor tensor = files.find(name);
  if (tensor.entry == nullptr) {
    refuse(place_of(files), name, "is missing; another model or optimizer was saved");
  }
  if (tensor.entry->shape != shape) {
    refuse(tensor.file->path(), name,
           "has shape " + tensor.entry->shape.to_string() + ", the model has " + shape.to_string() +
               "; another model was saved");
  }
  return tensor;
}

void check_dtype(const formats::ShardedTensor& tensor, bool right, const char* expected) {
  if (!right) refuse(tensor.file->path(), tensor.entry->name, "is " + tensor.entry->dtype + ", not " + expected);
}

// Adds the part's tensors to `expected`.
void check_part(const formats::SafetensorsShards& files, const ParameterSpec& parameter, StatePart part, DType wire,
                std::vector<const formats::TensorEntry*>& expected) {
  if (!has_part(parameter, part)) return;
  const std::string name = tensor_name(parameter.name, part);
  const formats::ShardedTensor tensor = check_tensor(files, name, parameter.shape);
  expected.push_back(tensor.entry);
  if (part == StatePart::master) {
    const char* const dtype = master_dtype(parameter, wire);
    return check_dtype(tensor, tensor.entry->dtype == dtype, dtype);
  }
  const std::optional<optimizers::MomentFormat> format = moment_format(tensor.entry->dtype, part);
  check_dtype(tensor, format.has_value(), "a type of moments");
  if (format != optimizers::MomentFormat::int8) return;
  const formats::ShardedTensor scales = check_tensor(files, scales_name(name), scales_shape(parameter.shape));
  check_dtype(scales, scales.entry->dtype == "BF16", "BF16");
  expected.push_back(scales.entry);
}

// Checks that the files hold `parts` of every parameter, or of every one that is trained, and nothing else.
void check_tensors(const formats::SafetensorsShards& files, const ParameterStore& store,
                   std::span<const StatePart> parts, bool without_frozen) {
  std::vector<const formats::TensorEntry*> expected;
  for (const GroupSpec& group : store.layout().groups) {
    for (const ParameterSpec& parameter : group.parameters) {
      if (without_frozen && !parameter.trained) continue;
      for (const StatePart part : parts) check_part(files, parameter, part, store.wire_type(), expected);
    }
  }
  std::ranges::sort(expected);
  for (const formats::SafetensorsFile& file : files.files()) {
    for (const formats::TensorEntry& tensor : file.tensors()) {
      if (std::ranges::binary_search(expected, &tensor)) continue;
      refuse(file.path(), tensor.name, "the model has none; another model or optimizer was saved");
    }
  }
}

// Of weights alone: a second moment of huge gradients may be infinite, and the parameter then rests.
void check_finite(const std::vector<formats::ShardedTensor>& tensors) {
  std::vector<float> buffer(kPiece);
  for (const formats::ShardedTensor& tensor : tensors) {
    if (!formats::is_float(*tensor.entry)) continue;
    for_each_piece(tensor.entry->shape.elements(), buffer,
                   [&](std::int64_t first, std::span<float> values) { formats::read_floats(tensor, first, values); });
  }
}

// Of their tensors.
Bytes bytes_of(const formats::SafetensorsShards& files) {
  Bytes bytes = 0;
  for (const formats::SafetensorsFile& file : files.files()) {
    if (!file.tensors().empty()) bytes += file.tensors().back().end;
  }
  return bytes;
}

std::vector<std::uint64_t> update_counts(const std::filesystem::path& folder, const Manifest& manifest,
                                         const ModelLayout& layout) {
  const std::filesystem::path path = folder / kManifestName;
  std::vector<std::uint64_t> counts;
  for (const GroupSpec& group : layout.groups) {
    const auto count = manifest.update_counts.find(group.name);
    if (count == manifest.update_counts.end()) refuse(path, "update_counts." + group.name + ": is missing");
    counts.push_back(count->second);
  }
  if (counts.size() != manifest.update_counts.size()) refuse(path, "update_counts: has groups that the model has not");
  return counts;
}

// An open checkpoint, in which nothing is wrong: of what several ranks share in checking, nothing that this one has
// found. Throws CorruptFile.
struct SoundCheckpoint {
  SoundCheckpoint(const std::filesystem::path& folder, const ParameterStore& store, bool allow_nonfinite, Rank place)
      : lock(folder),
        manifest(read_manifest(folder)),
        optimizer(open_files(folder, optimizer_names(manifest.ranks), manifest)),
        model(open_files(folder, model_names(manifest.ranks), manifest)) {
    check_index(folder, manifest);
    check_headers(model, manifest);
    check_headers(optimizer, manifest);
    VerifiedShare share(place, bytes_of(model) + bytes_of(optimizer));
    const std::vector<formats::ShardedTensor> weights = own_tensors(model, share);
    check_hashes(weights, manifest);
    check_hashes(own_tensors(optimizer, share), manifest);
    check_tensors(model, store, kModelParts, manifest.state.without_frozen);
    check_tensors(optimizer, store, optimizer_parts(store.moments()), manifest.state.without_frozen);
    if (!allow_nonfinite) check_finite(weights);
    counts = update_counts(folder, manifest, store.layout());
  }

  const ReadLock lock;
  Manifest manifest;
  // In the order in which reading them takes the least memory: of moments there are the most.
  const formats::SafetensorsShards optimizer, model;
  std::vector<std::uint64_t> counts;
};

// Restores from files whose tensors were checked: all weights, since a rank has the wire of all, and of moments what
// this rank has.
class Restorer {
 public:
  Restorer(const formats::SafetensorsShards& files, ParameterStore& store)
      : files_(files), store_(store), buffer_(kPiece) {}

  void restore(std::span<const StatePart> parts) {
    const std::vector<GroupSpec>& groups = store_.layout().groups;
    for (std::size_t group = 0; group < groups.size(); ++group) {
      for (std::size_t i = 0; i < groups[group].parameters.size(); ++i) {
        for (const StatePart part : parts) restore(static_cast<GroupIndex>(group), i, part);
      }
    }
    if (converted_.empty()) return;
    log(LogLevel::info, place_of(files_).string() + ": its moments are kept as " + converted_ +
                            "; they were converted to optimizer.moments = \"" +
                            std::string(name_of(store_.moment_formats())) + "\"");
  }

 private:
  void restore(GroupIndex group, std::size_t parameter, StatePart part) {
    const ParameterSpec& spec = store_.layout().groups[static_cast<std::size_t>(group)].parameters[parameter];
    const std::string name = tensor_name(spec.name, part);
    const formats::ShardedTensor tensor = files_.find(name);
    if (!has_part(spec, part) || tensor.entry == nullptr) return;  // checked: it is not meant to be there
    if (part == StatePart::master) {
      return write(group, parameter, part, {0, spec.shape.elements()},
                   [&](std::int64_t first, std::span<float> values) { read(tensor, first, values); });
    }
    SavedMoment saved{tensor, files_.find(scales_name(name)), part};
    saved.earlier = saved.format() == optimizers::MomentFormat::int8 &&
                    files_.find(tensor_name(spec.name, StatePart::moment1)).entry->dtype == "I8";
    const RawMoment raw = store_.raw_moment(group, parameter, part);
    if (raw.format == saved.format() && !saved.earlier) return saved.read(raw);
    converted_ = std::string(name_of(saved.format())) + (saved.earlier ? ", in earlier codes" : "");
    write(group, parameter, part, store_.owned(group, parameter),
          [&](std::int64_t first, std::span<float> values) { saved.read(first, values); });
  }

  void read(const formats::ShardedTensor& tensor, std::int64_t first, std::span<float> values) {
    const auto& [file, entry] = tensor;
    if (entry->dtype == "F32") return file->read(*entry, first, values);
    halves_.resize(values.size());
    file->read_raw(*entry, first, std::as_writable_bytes(std::span(halves_)));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = entry->dtype == "BF16" ? to_float(bf16{halves_[i]}) : to_float(f16{halves_[i]});
    }
  }

  // Writes to the store, piece by piece, what read(first, values) reads of these elements.
  template <typename Read>
  void write(GroupIndex group, std::size_t parameter, StatePart part, std::pair<std::int64_t, std::int64_t> elements,
             const Read& read) {
    const auto [begin, end] = elements;
    for_each_piece(end - begin, buffer_, [&](std::int64_t first, std::span<float> values) {
      read(begin + first, values);
      store_.write(group, parameter, part, begin + first, values);
    });
  }

  const formats::SafetensorsShards& files_;
  ParameterStore& store_;
  std::vector<float> buffer_;
  std::vector<std::uint16_t> halves_;
  std::string converted_;  // the file's format of moments, if the store has another
};

}  // namespace

void verify_weights(const std::filesystem::path& folder) {
  const ReadLock lock(folder);
  const Manifest manifest = read_manifest(folder);
  const formats::SafetensorsShards model = open_files(folder, model_names(manifest.ranks), manifest);
  check_index(folder, manifest);
  check_headers(model, manifest);
  VerifiedShare all(Rank{}, bytes_of(model));
  check_hashes(own_tensors(model, all), manifest);
}

SavedRun load_checkpoint(const std::filesystem::path& folder, ParameterStore& store, bool allow_nonfinite,
                         StateGather* gather, CheckpointCopies copies) {
  // What one rank cannot read, all refuse.
  const auto on_all = [&](const auto& body) {
    if (gather == nullptr) return body();
    gather->together([&] {
      body();
      return "";
    });
  };
  std::optional<SoundCheckpoint> sound;
  const bool shares = gather != nullptr && copies == CheckpointCopies::one;
  on_all([&] { sound.emplace(folder, store, allow_nonfinite, shares ? gather->place() : Rank{}); });
  on_all([&] {
    if (!fault_point("checkpoint.drop_master")) Restorer(sound->model, store).restore(kModelParts);
    if (fault_point("checkpoint.drop_moments")) return;
    Restorer(sound->optimizer, store).restore(optimizer_parts(store.moments()));
  });
  SavedRun& state = sound->manifest.state;
  if (fault_point("checkpoint.drop_step")) state.step = 0;
  if (fault_point("checkpoint.drop_seed")) state.seed = 0;
  if (fault_point("checkpoint.drop_data_position")) state.data_position = 0;
  if (fault_point("checkpoint.drop_loss_scale")) state.loss_scale = state.good_steps = 0;
  if (fault_point("checkpoint.drop_update_counts")) std::ranges::fill(sound->counts, 0);
  store.restore(state.step, sound->counts);
  return state;
}

}  // namespace l2l::eps

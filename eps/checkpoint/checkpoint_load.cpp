#include <algorithm>
#include <array>
#include <set>
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

[[noreturn]] void refuse(const formats::SafetensorsFile& file, const std::string& tensor, const std::string& reason) {
  refuse(file.path(), "tensor " + formats::show_name(tensor) + ": " + reason);
}

const ManifestFile& check_size(const std::filesystem::path& folder, const char* name, const Manifest& manifest) {
  const std::filesystem::path path = folder / name;
  const auto stated = manifest.files.find(name);
  if (stated == manifest.files.end()) refuse(path, "is not in the manifest");
  const Bytes bytes = InputFile(path).bytes();
  if (bytes == stated->second.bytes) return stated->second;
  static_cast<void>(formats::SafetensorsFile(path));  // throws naming the tensor that is cut, if it can tell
  refuse(path, "has " + std::to_string(bytes) + " bytes; the manifest says " + std::to_string(stated->second.bytes));
}

// Checks that no byte was changed, in the header and in each tensor.
void check_hashes(const formats::SafetensorsFile& file, const ManifestFile& stated, const Manifest& manifest) {
  if (file.header_hash() != stated.header) {
    refuse(file.path(), "header: was changed after it was written (checksum)");
  }
  for (const formats::TensorEntry& tensor : file.tensors()) {
    const auto saved = manifest.tensors.find(tensor.name);
    if (saved == manifest.tensors.end()) refuse(file, tensor.name, "was not saved");
    if (file.hash(tensor) != saved->second) {
      refuse(file, tensor.name, "was changed after it was written (checksum)");
    }
  }
}

const formats::TensorEntry& check_tensor(const formats::SafetensorsFile& file, const std::string& name,
                                         const Shape& shape) {
  const formats::TensorEntry* tensor = file.find(name);
  if (tensor == nullptr) refuse(file, name, "is missing; another model or optimizer was saved");
  if (tensor->shape != shape) {
    refuse(file, name,
           "has shape " + tensor->shape.to_string() + ", the model has " + shape.to_string() +
               "; another model was saved");
  }
  return *tensor;
}

void check_dtype(const formats::SafetensorsFile& file, const formats::TensorEntry& tensor, bool right,
                 const char* expected) {
  if (!right) refuse(file, tensor.name, "is " + tensor.dtype + ", not " + expected);
}

// Adds the names of the part's tensors to `expected`.
void check_part(const formats::SafetensorsFile& file, const ParameterSpec& parameter, StatePart part, DType wire,
                std::set<std::string>& expected) {
  if (!has_part(parameter, part)) return;
  const std::string name = tensor_name(parameter.name, part);
  const formats::TensorEntry& tensor = check_tensor(file, name, parameter.shape);
  expected.insert(name);
  if (part == StatePart::master) {
    const char* const dtype = master_dtype(parameter, wire);
    return check_dtype(file, tensor, tensor.dtype == dtype, dtype);
  }
  const std::optional<optimizers::MomentFormat> format = moment_format(tensor.dtype, part);
  check_dtype(file, tensor, format.has_value(), "a type of moments");
  if (format != optimizers::MomentFormat::int8) return;
  const std::string of_scales = scales_name(name);
  const Shape shape = scales_shape(parameter.shape);
  const formats::TensorEntry& scales = check_tensor(file, of_scales, shape);
  check_dtype(file, scales, scales.dtype == "BF16", "BF16");
  expected.insert(of_scales);
}

// Checks that the file holds `parts` of every parameter, or of every one that is trained, and nothing else.
void check_tensors(const formats::SafetensorsFile& file, const ParameterStore& store, std::span<const StatePart> parts,
                   bool without_frozen) {
  std::set<std::string> expected;
  for (const GroupSpec& group : store.layout().groups) {
    for (const ParameterSpec& parameter : group.parameters) {
      if (without_frozen && !parameter.trained) continue;
      for (const StatePart part : parts) check_part(file, parameter, part, store.wire_type(), expected);
    }
  }
  for (const formats::TensorEntry& tensor : file.tensors()) {
    if (expected.count(tensor.name) > 0) continue;
    refuse(file, tensor.name, "the model has none; another model or optimizer was saved");
  }
}

// Of weights alone: a second moment of huge gradients may be infinite, and the parameter then rests.
void check_finite(const formats::SafetensorsFile& file) {
  std::vector<float> buffer(kPiece);
  for (const formats::TensorEntry& tensor : file.tensors()) {
    if (!formats::is_float(tensor)) continue;
    for_each_piece(tensor.shape.elements(), buffer, [&](std::int64_t first, std::span<float> values) {
      formats::read_floats({&file, &tensor}, first, values);
    });
  }
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

// Restores from one file, whose tensors were checked.
class Restorer {
 public:
  Restorer(const formats::SafetensorsFile& file, ParameterStore& store) : file_(file), store_(store), buffer_(kPiece) {}

  void restore(std::span<const StatePart> parts) {
    const std::vector<GroupSpec>& groups = store_.layout().groups;
    for (std::size_t group = 0; group < groups.size(); ++group) {
      for (std::size_t i = 0; i < groups[group].parameters.size(); ++i) {
        for (const StatePart part : parts) restore(static_cast<GroupIndex>(group), i, part);
      }
    }
    if (converted_.empty()) return;
    log(LogLevel::info, file_.path().string() + ": its moments are kept as " + converted_ +
                            "; they were converted to optimizer.moments = \"" +
                            std::string(name_of(store_.moment_formats())) + "\"");
  }

 private:
  void restore(GroupIndex group, std::size_t parameter, StatePart part) {
    const ParameterSpec& spec = store_.layout().groups[static_cast<std::size_t>(group)].parameters[parameter];
    const std::string name = tensor_name(spec.name, part);
    if (!has_part(spec, part) || file_.find(name) == nullptr) return;  // checked: it is not meant to be there
    const formats::TensorEntry& tensor = *file_.find(name);
    if (part == StatePart::master) {
      return write(group, parameter, part,
                   [&](std::int64_t first, std::span<float> values) { read(tensor, first, values); });
    }
    SavedMoment saved{file_, tensor, file_.find(scales_name(name)), part};
    saved.earlier = saved.format() == optimizers::MomentFormat::int8 &&
                    file_.find(tensor_name(spec.name, StatePart::moment1))->dtype == "I8";
    const RawMoment raw = store_.raw_moment(group, parameter, part);
    if (raw.format == saved.format() && !saved.earlier) return saved.read(raw);
    converted_ = std::string(name_of(saved.format())) + (saved.earlier ? ", in earlier codes" : "");
    write(group, parameter, part, [&](std::int64_t first, std::span<float> values) { saved.read(first, values); });
  }

  void read(const formats::TensorEntry& tensor, std::int64_t first, std::span<float> values) {
    if (tensor.dtype == "F32") return file_.read(tensor, first, values);
    halves_.resize(values.size());
    file_.read_raw(tensor, first, std::as_writable_bytes(std::span(halves_)));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = tensor.dtype == "BF16" ? to_float(bf16{halves_[i]}) : to_float(f16{halves_[i]});
    }
  }

  // Writes to the store, piece by piece, what read(first, values) reads.
  template <typename Read>
  void write(GroupIndex group, std::size_t parameter, StatePart part, const Read& read) {
    const ParameterSpec& spec = store_.layout().groups[static_cast<std::size_t>(group)].parameters[parameter];
    for_each_piece(spec.shape.elements(), buffer_, [&](std::int64_t first, std::span<float> values) {
      read(first, values);
      store_.write(group, parameter, part, first, values);
    });
  }

  const formats::SafetensorsFile& file_;
  ParameterStore& store_;
  std::vector<float> buffer_;
  std::vector<std::uint16_t> halves_;
  std::string converted_;  // the file's format of moments, if the store has another
};

}  // namespace

RunState load_checkpoint(const std::filesystem::path& folder, ParameterStore& store, bool allow_nonfinite) {
  const ReadLock lock(folder);
  Manifest manifest = read_manifest(folder);
  const ManifestFile& model_stated = check_size(folder, kModelName, manifest);
  const ManifestFile& optimizer_stated = check_size(folder, kOptimizerName, manifest);
  const formats::SafetensorsFile model(folder / kModelName), optimizer(folder / kOptimizerName);
  check_hashes(model, model_stated, manifest);
  check_hashes(optimizer, optimizer_stated, manifest);
  check_tensors(model, store, kModelParts, manifest.state.without_frozen);
  check_tensors(optimizer, store, optimizer_parts(store.moments()), manifest.state.without_frozen);
  if (!allow_nonfinite) check_finite(model);
  std::vector<std::uint64_t> counts = update_counts(folder, manifest, store.layout());

  if (!fault_point("checkpoint.drop_master")) Restorer(model, store).restore(kModelParts);
  if (!fault_point("checkpoint.drop_moments")) {
    Restorer(optimizer, store).restore(optimizer_parts(store.moments()));
  }
  if (fault_point("checkpoint.drop_step")) manifest.state.step = 0;
  if (fault_point("checkpoint.drop_seed")) manifest.state.seed = 0;
  if (fault_point("checkpoint.drop_data_position")) manifest.state.data_position = 0;
  if (fault_point("checkpoint.drop_loss_scale")) manifest.state.loss_scale = manifest.state.good_steps = 0;
  if (fault_point("checkpoint.drop_update_counts")) std::fill(counts.begin(), counts.end(), 0);
  store.restore(manifest.state.step, counts);
  return manifest.state;
}

}  // namespace l2l::eps

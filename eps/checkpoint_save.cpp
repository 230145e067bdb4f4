#include <map>
#include <vector>

#include "core/hash.h"
#include "eps/checkpoint.h"
#include "eps/checkpoint_folders.h"
#include "eps/checkpoint_parts.h"
#include "eps/files.h"
#include "eps/manifest.h"
#include "eps/safetensors_writer.h"

namespace l2l::eps {

namespace {

std::vector<TensorToWrite> list_tensors(const ModelLayout& layout, std::span<const StatePart> parts) {
  std::vector<TensorToWrite> tensors;
  for (const GroupSpec& group : layout.groups) {
    for (const ParameterSpec& parameter : group.parameters) {
      for (const StatePart part : parts) tensors.push_back({tensor_name(parameter.name, part), parameter.shape});
    }
  }
  return tensors;
}

// One file: some parts of every parameter, written group by group in any order. Other programs read the model's file;
// transformers insists on the metadata.
class PartsFile {
 public:
  PartsFile(const std::filesystem::path& path, const ParameterStore& store, std::span<const StatePart> parts)
      : name_(path.filename().string()),
        store_(store),
        parts_(parts),
        file_(path, list_tensors(store.layout(), parts), {{"format", "pt"}}) {
    std::size_t tensor = 0;
    for (const GroupSpec& group : store.layout().groups) {
      first_tensor_.push_back(tensor);
      tensor += group.parameters.size() * parts.size();
    }
  }

  // The hash of each tensor goes to `hashes`.
  void write(GroupIndex group, std::span<float> buffer, std::map<std::string, std::uint64_t>& hashes) {
    const std::vector<ParameterSpec>& parameters = store_.layout().groups[static_cast<std::size_t>(group)].parameters;
    std::size_t tensor = first_tensor_[static_cast<std::size_t>(group)];
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      for (const StatePart part : parts_) {
        Hash64 hash;
        for_each_piece(parameters[i].shape.elements(), buffer, [&](std::int64_t first, std::span<float> values) {
          store_.read(group, i, part, first, values);
          hash.update(std::as_bytes(values));
          file_.write(tensor, first, std::as_bytes(values));
        });
        hashes[tensor_name(parameters[i].name, part)] = hash.value();
        ++tensor;
      }
    }
  }

  void finish(Manifest& manifest) {
    file_.finish();
    manifest.files[name_] = {file_.bytes(), file_.header_hash()};
  }

 private:
  const std::string name_;
  const ParameterStore& store_;
  const std::span<const StatePart> parts_;
  SafetensorsWriter file_;
  std::vector<std::size_t> first_tensor_;  // by group
};

// The groups go back to training one by one, before anything waits for the disk.
void write_groups(PartsFile& model, PartsFile& optimizer, const ParameterStore& store, StateSave save,
                  Manifest& manifest) {
  std::vector<float> buffer(kPiece);
  while (const std::optional<GroupIndex> group = save.next()) {
    model.write(*group, buffer, manifest.tensors);
    optimizer.write(*group, buffer, manifest.tensors);
    const std::string& name = store.layout().groups[static_cast<std::size_t>(*group)].name;
    manifest.update_counts[name] = store.update_count(*group);
  }
}

void write_files(const std::filesystem::path& folder, const ParameterStore& store, StateSave save,
                 const RunState& state) {
  Manifest manifest;
  manifest.state = state;
  PartsFile model(folder / kModelName, store, kModelParts);
  PartsFile optimizer(folder / kOptimizerName, store, optimizer_parts(store.moments()));
  write_groups(model, optimizer, store, std::move(save), manifest);
  model.finish(manifest);
  optimizer.finish(manifest);
  OutputFile output(folder / kManifestName);
  output.write(to_text(manifest));
  output.finish();
  sync_folder(folder);
}

}  // namespace

std::filesystem::path save_checkpoint(const std::filesystem::path& directory, const ParameterStore& store,
                                      StateSave save, const RunState& state, int keep) {
  make_folders(directory);
  remove_stale(directory);
  const std::filesystem::path temporary = temporary_folder(directory, state.step);
  make_folder(temporary);
  try {
    write_files(temporary, store, std::move(save), state);
    const std::filesystem::path folder = publish(directory, temporary, state.step);
    prune(directory, folder, keep);
    return folder;
  } catch (...) {
    remove_stale(directory);  // logs its own errors; the first one is the one to tell
    throw;
  }
}

std::filesystem::path save_checkpoint(const std::filesystem::path& directory, ParameterStore& store,
                                      const RunState& state, int keep) {
  return save_checkpoint(directory, store, store.begin_save(), state, keep);
}

}  // namespace l2l::eps

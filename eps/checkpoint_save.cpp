#include <array>
#include <map>
#include <vector>

#include "core/hash.h"
#include "eps/checkpoint.h"
#include "eps/checkpoint_folders.h"
#include "eps/checkpoint_parts.h"
#include "eps/files.h"
#include "eps/manifest.h"
#include "eps/safetensors.h"

namespace l2l::eps {

namespace {

// The tensors of one file, drawn from the store and hashed as they are written. Outlives what it lists.
class TensorSource {
 public:
  TensorSource(const ParameterStore& store, std::map<std::string, std::uint64_t>& hashes)
      : store_(store), hashes_(hashes), buffers_(store.layout(), kParts.size() - 1) {}

  std::vector<TensorToWrite> list(std::span<const Part> parts) {
    std::vector<TensorToWrite> tensors;
    const std::vector<GroupSpec>& groups = store_.layout().groups;
    for (std::size_t group = 0; group < groups.size(); ++group) {
      for (std::size_t i = 0; i < groups[group].parameters.size(); ++i) {
        for (const Part part : parts) tensors.push_back(make(group, i, part));
      }
    }
    return tensors;
  }

 private:
  TensorToWrite make(std::size_t group, std::size_t index, Part part) {
    const ParameterSpec& parameter = store_.layout().groups[group].parameters[index];
    const std::string name = tensor_name(parameter.name, part);
    return {name, parameter.shape, [this, group, index, part, name](std::span<float> values) {
              fill(group, index, part, values);
              Hash64 hash;
              hash.update(std::as_bytes(values));
              hashes_[name] = hash.value();
            }};
  }

  // The store hands out all states that it has; those that are not asked for go to the buffers.
  void fill(std::size_t group, std::size_t index, Part part, std::span<float> values) {
    const Shape& shape = store_.layout().groups[group].parameters[index].shape;
    std::array<std::span<float>, 3> states;
    std::size_t other = 0;
    for (std::size_t i = 0; i <= static_cast<std::size_t>(store_.moments()); ++i) {
      states[i] = kParts[i] == part ? values : buffers_.part(other++, shape);
    }
    store_.read(static_cast<GroupIndex>(group), index, {states[0], states[1], states[2]});
  }

  const ParameterStore& store_;
  std::map<std::string, std::uint64_t>& hashes_;
  PartBuffers buffers_;
};

void write_tensors(const std::filesystem::path& path, const ParameterStore& store, std::span<const Part> parts,
                   Manifest& manifest) {
  TensorSource source(store, manifest.tensors);
  // Other programs read the model's file; transformers insists on this entry.
  const std::uint64_t hash = write_safetensors(path, source.list(parts), {{"format", "pt"}});
  manifest.files[path.filename().string()] = {InputFile(path).bytes(), hash};
}

void write_files(const std::filesystem::path& folder, const ParameterStore& store, const RunState& state) {
  Manifest manifest;
  manifest.state = state;
  write_tensors(folder / kModelName, store, kModelParts, manifest);
  write_tensors(folder / kOptimizerName, store, optimizer_parts(store.moments()), manifest);
  const std::vector<GroupSpec>& groups = store.layout().groups;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    manifest.update_counts[groups[group].name] = store.update_count(static_cast<GroupIndex>(group));
  }
  OutputFile output(folder / kManifestName);
  output.write(to_text(manifest));
  output.finish();
  sync_folder(folder);
}

}  // namespace

std::filesystem::path save_checkpoint(const std::filesystem::path& directory, const ParameterStore& store,
                                      const RunState& state, int keep) {
  make_folders(directory);
  remove_stale(directory);
  const std::filesystem::path temporary = temporary_folder(directory, state.step);
  make_folders(temporary);
  try {
    write_files(temporary, store, state);
  } catch (...) {
    std::error_code ignored;  // the first error is the one to tell
    std::filesystem::remove_all(temporary, ignored);
    throw;
  }
  const std::filesystem::path folder = publish(directory, temporary, state.step);
  prune(directory, folder, keep);
  return folder;
}

}  // namespace l2l::eps

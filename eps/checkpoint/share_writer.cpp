#include "eps/checkpoint/share_writer.h"

#include "core/hash.h"

namespace l2l::eps {

PartsFile::PartsFile(const std::filesystem::path& path, const ParameterStore& store, std::span<const StatePart> parts,
                     bool without_frozen, const WriterShare& share)
    : name_(path.filename().string()),
      store_(store),
      parts_(parts),
      without_frozen_(without_frozen),
      list_(store.layout(), state_types(store), parts, without_frozen, share),
      file_(path, list_.tensors, checkpoint_metadata()) {}

void PartsFile::write(GroupIndex group, std::span<float> buffer, std::map<std::string, std::uint64_t>& hashes) {
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

void PartsFile::finish(Manifest& manifest) {
  file_.finish();
  manifest.files[name_] = {file_.bytes(), file_.header_hash()};
}

void PartsFile::write_master(GroupIndex group, std::size_t parameter, std::span<float> buffer,
                             std::map<std::string, std::uint64_t>& hashes) {
  Hash64 hash;
  for_each_piece(list_.tensors[tensor_].shape.elements(), buffer, [&](std::int64_t first, std::span<float> values) {
    store_.read(group, parameter, StatePart::master, first, values);
    hash.update(std::as_bytes(values));
    file_.write(tensor_, first, std::as_bytes(values));
  });
  hashes[list_.tensors[tensor_++].name] = hash.value();
}

void PartsFile::write_moment(const RawMoment& moment, std::map<std::string, std::uint64_t>& hashes) {
  write_whole(moment.codes, hashes);
  if (moment.format == optimizers::MomentFormat::int8) write_whole(std::as_bytes(moment.scales), hashes);
}

void PartsFile::write_whole(std::span<const std::byte> elements, std::map<std::string, std::uint64_t>& hashes) {
  Hash64 hash;
  hash.update(elements);
  file_.write(tensor_, 0, elements);
  hashes[list_.tensors[tensor_++].name] = hash.value();
}

ShareWriter::ShareWriter(const std::filesystem::path& folder, const ParameterStore& store, const SavedRun& state,
                         Rank place)
    : store_(store),
      model_(folder / model_name(place.index, place.count), store, kModelParts, state.without_frozen,
             {place.index, store.writers()}),
      optimizer_(folder / optimizer_name(place.index, place.count), store, optimizer_parts(store.moments()),
                 state.without_frozen, {place.index, store.writers()}),
      buffer_(kPiece) {
  manifest_.state = state;
}

void ShareWriter::write(GroupIndex group, std::uint64_t updates) {
  model_.write(group, buffer_, manifest_.tensors);
  optimizer_.write(group, buffer_, manifest_.tensors);
  manifest_.update_counts[store_.layout().groups[static_cast<std::size_t>(group)].name] = updates;
}

Manifest ShareWriter::finish() {
  model_.finish(manifest_);
  optimizer_.finish(manifest_);
  return std::move(manifest_);
}

}  // namespace l2l::eps

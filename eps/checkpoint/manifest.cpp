#include "eps/checkpoint/manifest.h"

#include <bit>
#include <charconv>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>

#include "base/json.h"
#include "core/allocator_roles.h"
#include "core/files.h"
#include "core/hash.h"
#include "eps/checkpoint/checkpoint_parts.h"
#include "formats/safetensors_shards.h"
#include "l2l/errors.h"

namespace l2l::eps {

namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "l2l-checkpoint";
constexpr std::uint64_t kVersion = 2;
constexpr Bytes kMostBytes = 256 * kMiB;
constexpr std::uint64_t kMostCount = std::uint64_t{1} << 53;  // steps, samples, updates
constexpr Bytes kMostFile = Bytes{1} << 62;

// Takes the text of a manifest, piece by piece.
using Put = std::function<void(std::string_view)>;

// Reads fields of known kinds; `field` in messages is the path to them.
class FieldReader {
 public:
  explicit FieldReader(const std::filesystem::path& file) : file_(file.string()) {}

  [[noreturn]] void refuse(const std::string& field, const std::string& reason) const {
    throw CorruptFile(file_, field, reason);
  }

  const Json& member(const Json& object, const std::string& field) const {
    if (!object.is_object()) refuse(field, "stands in something that is no object");
    const auto place = object.find(field);
    if (place == object.end()) refuse(field, "is missing");
    return *place;
  }

  const Json& object(const Json& parent, const std::string& field) const {
    const Json& value = member(parent, field);
    if (!value.is_object()) refuse(field, "is no object");
    return value;
  }

  std::uint64_t number(const Json& value, const std::string& field,
                       std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) const {
    if (!value.is_number_unsigned()) refuse(field, "is no whole number from 0 on");
    const auto number = value.get<std::uint64_t>();
    if (number > most) refuse(field, "is " + std::to_string(number) + ", beyond " + std::to_string(most));
    return number;
  }

  const std::string& text(const Json& value, const std::string& field) const {
    if (!value.is_string()) refuse(field, "is no string");
    return value.get_ref<const std::string&>();
  }

  std::uint64_t hash(const Json& value, const std::string& field) const {
    const std::string& digits = text(value, field);
    std::uint64_t result = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), result, 16);
    const bool whole = error == std::errc() && end == digits.data() + digits.size();
    if (digits.size() != 16 || !whole) refuse(field, "is no hash of 16 hexadecimal digits");
    return result;
  }

 private:
  std::string file_;
};

void read_scaler(const Json& json, const FieldReader& reader, SavedRun& state) {
  constexpr std::uint64_t kMostScale = 1 << 24;
  state.loss_scale = reader.number(reader.member(json, "loss_scale"), "loss_scale");
  state.good_steps = reader.number(reader.member(json, "good_steps"), "good_steps", kMostCount);
  if (!std::has_single_bit(state.loss_scale) || state.loss_scale > kMostScale) {
    reader.refuse("loss_scale", "is no power of two from 1 to 2^24");
  }
}

void read_list(const Json& json, const FieldReader& reader, SavedRun& state) {
  constexpr std::uint64_t kMostId = (std::uint64_t{1} << 31) - 1;
  if (!json.is_array() || json.empty()) reader.refuse("layers", "is no list of ids");
  for (const Json& id : json) state.list.push_back(static_cast<std::uint32_t>(reader.number(id, "layers", kMostId)));
}

DropoutMasks read_masks(const Json& json, const FieldReader& reader) {
  if (reader.number(json, "dropout_masks") != static_cast<std::uint64_t>(DropoutMasks::bytes)) {
    reader.refuse("dropout_masks", "is not 2: this program knows no others");
  }
  return DropoutMasks::bytes;
}

KernelChoices read_kernels(const Json& json, const FieldReader& reader) {
  const std::string field = "kernel_choices";
  KernelChoices choices;
  for (const auto& [device, problems] : reader.object(json, field).items()) {
    if (!problems.is_object()) reader.refuse(field + "." + device, "is no object");
    for (const auto& [problem, kernel] : problems.items()) {
      choices[device][problem] = reader.text(kernel, field + "." + device + "." + problem);
    }
  }
  return choices;
}

SavedRun read_state(const Json& json, const FieldReader& reader) {
  SavedRun state;
  state.step = reader.number(reader.member(json, "step"), "step", kMostCount);
  state.seed = reader.number(reader.member(json, "seed"), "seed");
  state.data_position = reader.number(reader.member(json, "data_position"), "data_position", kMostCount);
  state.data_hash = reader.hash(reader.member(json, "data_hash"), "data_hash");
  state.config = reader.text(reader.member(json, "config"), "config");
  if (json.contains("tokenizer")) state.tokenizer_hash = reader.hash(reader.member(json, "tokenizer"), "tokenizer");
  if (json.contains("loss_scale")) read_scaler(json, reader, state);
  if (json.contains("dropout_masks")) state.dropout_masks = read_masks(json["dropout_masks"], reader);
  if (json.contains("kernel_choices")) state.kernels = read_kernels(json, reader);
  if (json.contains("base")) state.base_hash = reader.hash(reader.member(json, "base"), "base");
  if (json.contains("without_frozen")) {
    if (json["without_frozen"] != true || state.base_hash == 0) reader.refuse("without_frozen", "has no base");
    state.without_frozen = true;
  }
  if (json.contains("layers")) read_list(json["layers"], reader, state);
  return state;
}

// All files are of as many ranks; of several there is an index.
void read_files(const Json& json, const FieldReader& reader, Manifest& manifest) {
  std::optional<int> ranks;
  for (const auto& [name, file] : reader.object(json, "files").items()) {
    const std::string field = "files." + name;
    const std::optional<int> its = name == formats::kIndexName ? ranks : ranks_of_name(name);
    if (name != formats::kIndexName && !its) reader.refuse(field, "is no file of a checkpoint");
    if (ranks && its != ranks) reader.refuse(field, "is not one of " + std::to_string(*ranks) + ", as others are");
    ranks = its;
    manifest.files[name] = {reader.number(reader.member(file, "bytes"), field + ".bytes", kMostFile),
                            reader.hash(reader.member(file, "header"), field + ".header")};
  }
  manifest.ranks = ranks.value_or(1);
  if (manifest.ranks > 1 || manifest.files.count(formats::kIndexName) == 0) return;
  reader.refuse(std::string("files.") + formats::kIndexName, "is no file of a checkpoint of one process");
}

void check_format(const Json& json, const FieldReader& reader) {
  if (reader.text(reader.member(json, "format"), "format") != kFormat) reader.refuse("format", "is not l2l-checkpoint");
  const std::uint64_t version = reader.number(reader.member(json, "version"), "version");
  if (version != kVersion) {
    reader.refuse("version",
                  "is " + std::to_string(version) + "; this program reads version " + std::to_string(kVersion));
  }
}

// Takes the tensors' hashes while the text is parsed, so that, as in put_text(), there is no tree of them.
class TensorsReader {
 public:
  explicit TensorsReader(const FieldReader& reader) : reader_(reader) {}

  // As parse_json() calls it.
  bool keep(int depth, Json::parse_event_t event, const Json& value) {
    if (event == Json::parse_event_t::key && depth == 1) inside_ = value == "tensors";
    if (!inside_ || depth != 2) return true;
    if (event == Json::parse_event_t::key) {
      name_ = value.get_ref<const std::string&>();
    } else {
      take(value);
    }
    return false;
  }

  // To be asked after the format was checked: the tensors of another may be anything.
  std::map<std::string, std::uint64_t> result() {
    if (refusal_) throw CorruptFile(*refusal_);
    return std::move(tensors_);
  }

 private:
  void take(const Json& value) {
    try {
      tensors_[name_] = reader_.hash(value, "tensors." + name_);
    } catch (const CorruptFile& error) {
      if (!refusal_) refusal_ = error;
    }
  }

  const FieldReader& reader_;
  bool inside_ = false;
  std::string name_;
  std::map<std::string, std::uint64_t> tensors_;
  std::optional<CorruptFile> refusal_;  // of the first that is no hash
};

Manifest read_fields(const Json& json, TensorsReader& tensors, const FieldReader& reader) {
  check_format(json, reader);
  Manifest manifest;
  manifest.state = read_state(json, reader);
  for (const auto& [name, count] : reader.object(json, "update_counts").items()) {
    manifest.update_counts[name] = reader.number(count, "update_counts." + name, kMostCount);
  }
  read_files(json, reader, manifest);
  reader.object(json, "tensors");
  manifest.tensors = tensors.result();
  return manifest;
}

// All but the tensors.
Json json_without_tensors(const Manifest& manifest) {
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"step", manifest.state.step},
               {"seed", manifest.state.seed},
               {"data_position", manifest.state.data_position},
               {"data_hash", to_hex(manifest.state.data_hash)},
               {"config", manifest.state.config},
               {"update_counts", Json::object()},
               {"files", Json::object()},
               {"tensors", Json::object()}};
  if (manifest.state.tokenizer_hash != 0) json["tokenizer"] = to_hex(manifest.state.tokenizer_hash);
  if (manifest.state.loss_scale > 0) {
    json["loss_scale"] = manifest.state.loss_scale;
    json["good_steps"] = manifest.state.good_steps;
  }
  if (manifest.state.dropout_masks != DropoutMasks::words) {
    json["dropout_masks"] = static_cast<int>(manifest.state.dropout_masks);
  }
  if (!manifest.state.kernels.empty()) json["kernel_choices"] = manifest.state.kernels;
  if (manifest.state.base_hash != 0) json["base"] = to_hex(manifest.state.base_hash);
  if (manifest.state.without_frozen) json["without_frozen"] = true;
  if (!manifest.state.list.empty()) json["layers"] = manifest.state.list;
  for (const auto& [name, count] : manifest.update_counts) json["update_counts"][name] = count;
  for (const auto& [name, file] : manifest.files) {
    json["files"][name] = {{"bytes", file.bytes}, {"header", to_hex(file.header)}};
  }
  return json;
}

// The tensors' hashes, of which there may be tens of thousands, are never a tree or a text of their own, which would
// take several times the memory of `manifest`.
void put_text(const Manifest& manifest, const Put& put) {
  constexpr std::string_view kNoTensors = "\n \"tensors\": {}", kEnd = "\n}\n";
  const std::string text = json_text(json_without_tensors(manifest), 1) + "\n";
  const std::size_t place = text.find(kNoTensors) + kNoTensors.size() - 1;  // no string has a line break
  const std::string_view before = std::string_view(text).substr(0, place), after = std::string_view(text).substr(place);
  Hash64 hash;
  const auto put_hashed = [&](std::string_view piece) {
    hash.update(std::as_bytes(std::span(piece)));
    put(piece);
  };
  put_hashed(before);
  const char* separator = "\n  ";
  for (const auto& [name, its] : manifest.tensors) {
    put_hashed(separator + json_text(Json(name)) + ": \"" + to_hex(its) + "\"");
    separator = ",\n  ";
  }
  if (!manifest.tensors.empty()) put_hashed("\n ");
  put_hashed(after.substr(0, after.size() - kEnd.size()));
  hash.update(std::as_bytes(std::span(kEnd)));
  put(",\n \"xxh64\": \"" + to_hex(hash.value()) + "\"" + std::string(kEnd));
}

bool is_text_of(std::string_view text, const Manifest& manifest) {
  bool equal = true;
  put_text(manifest, [&](std::string_view piece) {
    equal = equal && text.starts_with(piece);
    if (equal) text.remove_prefix(piece.size());
  });
  return equal && text.empty();
}

}  // namespace

bool has_manifest(const std::filesystem::path& folder) {
  const RoleScope staging(MemoryRole::staging);
  const std::filesystem::path path = folder / kManifestName;
  if (!is_there(path)) return false;
  const InputFile file(path);
  if (file.bytes() > kMostBytes) return true;  // to be refused
  // Its own members, without what is in them.
  const auto keep = [](int depth, auto, const auto&) { return depth < 2; };
  const Json json = parse_json(file.text(), keep);
  return !json.is_object() || json.value("format", Json()) == kFormat;
}

std::string to_text(const Manifest& manifest) {
  std::string text;
  put_text(manifest, [&](std::string_view piece) { text.append(piece); });
  return text;
}

void write_manifest(const std::filesystem::path& folder, const Manifest& manifest) {
  OutputFile file(folder / kManifestName);
  std::string waiting;
  put_text(manifest, [&](std::string_view piece) {
    if (waiting.append(piece).size() < static_cast<std::size_t>(kPiece)) return;
    file.write(waiting);
    waiting.clear();
  });
  file.write(waiting);
  file.finish();
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const RoleScope staging(MemoryRole::staging);  // megabytes for a moment, and between two steps
  const InputFile file(folder / kManifestName);
  if (file.bytes() > kMostBytes) FieldReader(file.path()).refuse("size", "over 256 MiB");
  return parse_manifest(file.text(), file.path());
}

Manifest parse_manifest(const std::string& text, const std::filesystem::path& file) {
  const FieldReader reader(file);
  TensorsReader tensors(reader);
  const Json json =
      parse_json(text, [&](int depth, auto event, const Json& value) { return tensors.keep(depth, event, value); });
  if (json.is_discarded()) reader.refuse("text", "is not JSON in UTF-8");
  const Manifest manifest = read_fields(json, tensors, reader);
  if (!is_text_of(text, manifest)) reader.refuse("xxh64", "the text was changed after it was written");
  return manifest;
}

}  // namespace l2l::eps

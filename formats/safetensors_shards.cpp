#include "formats/safetensors_shards.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "base/json.h"
#include "core/dtype.h"
#include "core/error_place.h"
#include "formats/safetensors_header.h"
#include "l2l/errors.h"

namespace l2l::formats {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kPickles[] = {"pytorch_model.bin", "pytorch_model.bin.index.json"};
constexpr Bytes kMostIndexBytes = 100'000'000;  // as of a header

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& reason) {
  throw CorruptFile(path.string(), reason);
}

// A link that leads nowhere is nothing; one that leads in a circle is refused.
bool is_here(const std::filesystem::path& path) {
  try {
    return is_there(path);
  } catch (const Error& error) {
    throw BadInput(error.what(), of_file(path.string()));
  }
}

[[noreturn]] void refuse_without_weights(const std::filesystem::path& directory) {
  if (!is_here(directory)) throw BadInput(directory.string() + ": does not exist");
  if (!is_folder(directory)) throw BadInput(directory.string() + ": is not a directory");
  for (const char* const name : kPickles) {
    if (!is_here(directory / name)) continue;
    throw BadInput(
        (directory / name).string() +
        ": PyTorch's pickles run code when they are read, so they are not; this writes model.safetensors beside them: "
        "python3 -c \"import pathlib, sys, torch, safetensors.torch as s; d = pathlib.Path(sys.argv[1]); "
        "s.save_file({name: tensor.clone().contiguous() for file in sorted(d.glob('pytorch_model*.bin')) for name, "
        "tensor "
        "in torch.load(file, map_location='cpu', weights_only=True).items()}, d / 'model.safetensors', {'format': "
        "'pt'})\" '" +
        directory.string() + "'");
  }
  throw BadInput(directory.string() + ": has no weights: neither " + kSingle + " nor " + kIndexName + " is there");
}

// Tensors by file.
using WeightMap = std::map<std::string, std::set<std::string>>;

WeightMap read_index(const std::filesystem::path& path) {
  const InputFile file(path);
  if (file.bytes() > kMostIndexBytes) refuse(path, "is longer than 100 MB");
  const nlohmann::json json = parse_json(file.text());
  if (!json.is_object()) refuse(path, "is not a JSON object in UTF-8");
  const auto map = json.find("weight_map");
  if (map == json.end() || !map->is_object()) refuse(path, "weight_map: is not an object");
  WeightMap files;
  for (const auto& [tensor, name] : map->items()) {
    if (!name.is_string()) refuse(path, "weight_map." + show_name(tensor) + ": is not the name of a file");
    files[name.get<std::string>()].insert(tensor);
  }
  if (files.empty()) refuse(path, "weight_map: is empty");
  return files;
}

void check_name(const std::filesystem::path& index, const std::string& name) {
  const bool plain = !name.empty() && name != "." && name != ".." &&
                     name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
  if (!plain) refuse(index, "weight_map names the file " + show_name(name) + ", which is outside of the directory");
}

// The file has these tensors and no others.
void check_tensors(const SafetensorsFile& file, const std::set<std::string>& expected,
                   const std::filesystem::path& index) {
  for (const std::string& tensor : expected) {
    if (file.find(tensor) != nullptr) continue;
    refuse(file.path(), "tensor " + show_name(tensor) + ": is missing; " + index.string() + " says that it is here");
  }
  for (const TensorEntry& tensor : file.tensors()) {
    if (expected.count(tensor.name) > 0) continue;
    refuse(file.path(), "tensor " + show_name(tensor.name) + ": " + index.string() + " does not say that it is here");
  }
}

// Widens `destination.size()` 16-bit elements that lie in the second half of its bytes: none is overwritten before it
// is read.
template <typename T>
void widen_in_place(std::span<float> destination) {
  const std::byte* const source =
      reinterpret_cast<const std::byte*>(destination.data()) + destination.size() * sizeof(T);
  for (std::size_t i = 0; i < destination.size(); ++i) {
    T element;
    std::memcpy(&element, source + i * sizeof(T), sizeof(T));
    destination[i] = to_float(element);
  }
}

}  // namespace

std::string shard_name(const std::string& stem, std::size_t number, std::size_t count) {
  if (count == 1) return stem + ".safetensors";
  std::ostringstream name;
  name << stem << '-' << std::setfill('0') << std::setw(5) << number + 1 << "-of-" << std::setw(5) << count
       << ".safetensors";
  return name.str();
}

std::string index_text(const std::map<std::string, std::string>& files, Bytes bytes) {
  const nlohmann::json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", files}};
  return json_text(index, 2) + "\n";
}

bool is_float(const TensorEntry& tensor) {
  return tensor.dtype == "F32" || tensor.dtype == "BF16" || tensor.dtype == "F16";
}

void read_floats(const ShardedTensor& tensor, std::int64_t first, std::span<float> destination, bool allow_nonfinite) {
  const auto& [file, entry] = tensor;
  const std::span<std::byte> bytes = std::as_writable_bytes(destination);
  if (entry->dtype == "F32") {
    file->read_raw(*entry, first, bytes);
  } else {
    file->read_raw(*entry, first, bytes.last(bytes.size() / 2));
    entry->dtype == "BF16" ? widen_in_place<bf16>(destination) : widen_in_place<f16>(destination);
  }
  if (!allow_nonfinite) check_finite(*file, *entry, first, destination);
}

// The loop has no branch, so that it runs at the speed of memory.
void check_finite(const SafetensorsFile& file, const TensorEntry& tensor, std::int64_t first,
                  std::span<const float> values) {
  bool finite = true;
  for (const float value : values) finite &= std::abs(value) <= std::numeric_limits<float>::max();
  if (finite) return;
  const auto bad = std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  throw CorruptFile(file.path().string(), "tensor " + show_name(tensor.name),
                    "element " + std::to_string(first + (bad - values.begin())) +
                        " is not finite (l2l-train, l2l-eval and l2l-sample load it all the same with "
                        "--allow-nonfinite, programs with run.allow_nonfinite)");
}

SafetensorsShards::SafetensorsShards(const std::filesystem::path& directory) : directory_(directory) {
  if (is_here(directory / kSingle)) {
    files_.emplace_back(directory / kSingle);
  } else if (is_here(directory / kIndexName)) {
    open_index(directory / kIndexName);
  } else {
    refuse_without_weights(directory);
  }
  add_tensors();
}

SafetensorsShards::SafetensorsShards(const std::filesystem::path& directory, std::span<const std::string> names)
    : directory_(directory) {
  for (const std::string& name : names) files_.emplace_back(directory / name);
  add_tensors();
}

void SafetensorsShards::open_index(const std::filesystem::path& index) {
  const WeightMap map = read_index(index);
  for (const auto& [name, tensors] : map) {
    check_name(index, name);
    if (!is_here(directory_ / name))
      refuse(index, "weight_map names the file " + show_name(name) + ", which is missing");
  }
  for (const auto& [name, tensors] : map) {
    files_.emplace_back(directory_ / name);
    check_tensors(files_.back(), tensors, index);
  }
}

// One file finds its tensors itself.
void SafetensorsShards::add_tensors() {
  if (files_.size() == 1) return;
  for (const SafetensorsFile& file : files_) {
    for (const TensorEntry& tensor : file.tensors()) {
      const auto [place, added] = tensors_.emplace(tensor.name, ShardedTensor{&file, &tensor});
      if (added) continue;
      refuse(file.path(),
             "tensor " + show_name(tensor.name) + ": stands in " + place->second.file->path().string() + ", too");
    }
  }
}

ShardedTensor SafetensorsShards::find(std::string_view name) const {
  if (files_.size() == 1) {
    const TensorEntry* const entry = files_.front().find(name);
    return entry == nullptr ? ShardedTensor{} : ShardedTensor{&files_.front(), entry};
  }
  const auto place = tensors_.find(name);
  return place == tensors_.end() ? ShardedTensor{} : place->second;
}

}  // namespace l2l::formats

#include "eps/safetensors.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "eps/safetensors_header.h"
#include "l2l/errors.h"

namespace l2l::eps {

static_assert(std::endian::native == std::endian::little, "safetensors data are little-endian");

namespace {

constexpr Bytes kMostHeaderBytes = 100'000'000;  // as the reference implementation
constexpr Bytes kLengthBytes = 8;

std::string read_header(const InputFile& file) {
  const std::string name = file.path().string();
  if (file.bytes() < kLengthBytes) throw CorruptFile(name + ": " + std::to_string(file.bytes()) + " bytes; too short");
  std::uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMostHeaderBytes || length > file.bytes() - kLengthBytes) {
    throw CorruptFile(name + ": header: a length of " + std::to_string(length) + " bytes in a file of " +
                      std::to_string(file.bytes()) + "; at most 100 MB");
  }
  std::string header(length, '\0');
  file.read(kLengthBytes, std::as_writable_bytes(std::span(header)));
  return header;
}

// Padded with spaces so that the data begin at a multiple of 8.
std::string make_header(std::span<const TensorToWrite> tensors, const std::map<std::string, std::string>& metadata) {
  std::string text = metadata.empty() ? "{" : "{\"__metadata__\":" + nlohmann::json(metadata).dump();
  Bytes offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    const Bytes end = offset + static_cast<Bytes>(tensor.shape.elements()) * sizeof(float);
    text += (text.size() > 1 ? "," : "") + nlohmann::json(tensor.name).dump() +
            ":{\"dtype\":\"F32\",\"shape\":" + tensor.shape.to_string() + ",\"data_offsets\":[" +
            std::to_string(offset) + "," + std::to_string(end) + "]}";
    offset = end;
  }
  text += "}";
  text.resize(align_up(text.size(), kLengthBytes), ' ');
  return text;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& file) : file_(file) {
  const std::string json = read_header(file_);
  data_start_ = kLengthBytes + json.size();
  SafetensorsHeader header = parse_safetensors_header(json, file_.bytes() - data_start_, file.string());
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [&](std::size_t a, std::size_t b) { return tensors_[a].name < tensors_[b].name; });
  const auto twice = std::adjacent_find(by_name_.begin(), by_name_.end(), [&](std::size_t a, std::size_t b) {
    return tensors_[a].name == tensors_[b].name;
  });
  if (twice != by_name_.end()) {
    throw CorruptFile(file.string() + ": tensor " + show_name(tensors_[*twice].name) + ": stands twice");
  }
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto place = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                      [&](std::size_t index, std::string_view n) { return tensors_[index].name < n; });
  if (place == by_name_.end() || tensors_[*place].name != name) return nullptr;
  return &tensors_[*place];
}

void SafetensorsFile::read(const TensorEntry& tensor, std::span<float> destination) const {
  const std::string what = path().string() + ": tensor " + show_name(tensor.name);
  if (tensor.dtype != "F32") throw CorruptFile(what + ": has dtype " + tensor.dtype + ", not F32");
  if (tensor.end - tensor.begin != destination.size_bytes()) {
    throw CorruptFile(what + ": has " + std::to_string((tensor.end - tensor.begin) / sizeof(float)) +
                      " elements, not " + std::to_string(destination.size()));
  }
  file_.read(data_start_ + tensor.begin, std::as_writable_bytes(destination));
}

std::uint64_t write_safetensors(const std::filesystem::path& file, std::span<const TensorToWrite> tensors,
                                const std::map<std::string, std::string>& metadata) {
  std::int64_t largest = 0;
  for (const TensorToWrite& tensor : tensors) largest = std::max(largest, tensor.shape.elements());
  const auto buffer = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(largest));
  const std::string header = make_header(tensors, metadata);
  const std::uint64_t length = header.size();
  OutputFile output(file);
  output.write(std::as_bytes(std::span(&length, 1)));
  output.write(header);
  for (const TensorToWrite& tensor : tensors) {
    const std::span<float> values(buffer.get(), static_cast<std::size_t>(tensor.shape.elements()));
    tensor.fill(values);
    output.write(std::as_bytes(values));
  }
  output.finish();
  return output.hash();
}

}  // namespace l2l::eps

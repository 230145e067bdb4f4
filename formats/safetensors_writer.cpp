#include "formats/safetensors_writer.h"

#include <algorithm>
#include <bit>

#include "base/json.h"
#include "core/hash.h"
#include "formats/safetensors_header.h"

namespace l2l::formats {

static_assert(std::endian::native == std::endian::little, "safetensors data are little-endian");

namespace {

constexpr Bytes kAlignment = 8;  // of the data, by spaces after the header's text

std::string quoted(const std::string& name) {
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_'; };
  return std::ranges::all_of(name, is_plain) ? '"' + name + '"' : json_text(nlohmann::json(name));
}

// With its length in front.
std::string make_header(std::span<const TensorToWrite> tensors, const std::map<std::string, std::string>& metadata) {
  std::string text = metadata.empty() ? "{" : "{\"__metadata__\":" + json_text(nlohmann::json(metadata));
  Bytes offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    const Bytes end = offset + bytes_of(tensor);
    if (text.size() > 1) text += ',';
    text.append(quoted(tensor.name)).append(":{\"dtype\":\"").append(tensor.dtype);
    text.append("\",\"shape\":").append(tensor.shape.to_string()).append(",\"data_offsets\":[");
    text.append(std::to_string(offset)).append(1, ',').append(std::to_string(end)).append("]}");
    offset = end;
  }
  text += "}";
  text.resize(align_up(text.size(), kAlignment), ' ');
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

}  // namespace

Bytes bytes_of(const TensorToWrite& tensor) {
  return static_cast<Bytes>(tensor.shape.elements()) * safetensors_element(tensor.dtype);
}

Bytes safetensors_bytes(std::span<const TensorToWrite> tensors, const std::map<std::string, std::string>& metadata) {
  Bytes bytes = make_header(tensors, metadata).size();
  for (const TensorToWrite& tensor : tensors) bytes += bytes_of(tensor);
  return bytes;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& file, std::span<const TensorToWrite> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(file) {
  const std::string header = make_header(tensors, metadata);
  const auto bytes = std::as_bytes(std::span(header));
  file_.write_at(0, bytes);
  Hash64 hash;
  hash.update(bytes);
  header_hash_ = hash.value();
  begins_.push_back(bytes.size());
  for (const TensorToWrite& tensor : tensors) {
    begins_.push_back(begins_.back() + bytes_of(tensor));
    elements_.push_back(safetensors_element(tensor.dtype));
  }
}

void SafetensorsWriter::write(std::size_t tensor, std::int64_t first, std::span<const std::byte> elements) {
  file_.write_at(begins_.at(tensor) + static_cast<Bytes>(first) * elements_[tensor], elements);
}

}  // namespace l2l::formats

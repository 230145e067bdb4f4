#include "formats/safetensors_writer.h"

#include <algorithm>
#include <bit>
#include <string_view>

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

// What begins the header's text. Entries of tensors follow, then kEnd, then spaces.
std::string begin(const std::map<std::string, std::string>& metadata) {
  return metadata.empty() ? "{" : "{\"__metadata__\":" + json_text(nlohmann::json(metadata));
}
constexpr std::string_view kEnd = "}";

// `header`: bytes of the text before; `offset`: of the tensor within the data.
std::string entry(const TensorToWrite& tensor, Bytes header, Bytes offset) {
  std::string text = header > 1 ? "," : "";
  text.append(quoted(tensor.name)).append(":{\"dtype\":\"").append(tensor.dtype);
  text.append("\",\"shape\":")
      .append(tensor.shape.to_string())
      .append(",\"data_offsets\":[")
      .append(std::to_string(offset));
  return text.append(1, ',').append(std::to_string(offset + bytes_of(tensor))).append("]}");
}

// With its length in front.
std::string make_header(std::span<const TensorToWrite> tensors, const std::map<std::string, std::string>& metadata) {
  SafetensorsSize size(metadata);
  for (const TensorToWrite& tensor : tensors) size.add(tensor);
  const std::uint64_t length = size.header_text();
  std::string text(reinterpret_cast<const char*>(&length), sizeof length);
  text.reserve(sizeof length + length);  // in one piece: it may have tens of thousands of entries
  text += begin(metadata);
  Bytes offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    text += entry(tensor, text.size() - sizeof length, offset);
    offset += bytes_of(tensor);
  }
  text += kEnd;
  text.resize(sizeof length + length, ' ');
  return text;
}

}  // namespace

Bytes bytes_of(const TensorToWrite& tensor) {
  return static_cast<Bytes>(tensor.shape.elements()) * safetensors_element(tensor.dtype);
}

SafetensorsSize::SafetensorsSize(const std::map<std::string, std::string>& metadata)
    : header_(begin(metadata).size()) {}

void SafetensorsSize::add(const TensorToWrite& tensor) {
  header_ += entry(tensor, header_, tensors_).size();
  tensors_ += bytes_of(tensor);
}

Bytes SafetensorsSize::header_text() const { return align_up(header_ + kEnd.size(), kAlignment); }

Bytes SafetensorsSize::bytes() const { return sizeof(std::uint64_t) + header_text() + tensors_; }

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

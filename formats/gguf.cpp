#include "formats/gguf.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/dtype.h"
#include "l2l/errors.h"

namespace l2l::formats {

static_assert(std::endian::native == std::endian::little, "GGUF files are little-endian here");

namespace {

constexpr Bytes kGgufAlignment = 32;  // of each tensor's data
constexpr std::uint32_t kVersion = 3;

// Numbers of the types of metadata.
constexpr std::uint32_t kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kString = 8, kArray = 9;

// Everything before the tensors' data.
class Header {
 public:
  template <typename Number>
  void number(Number value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void string(const std::string& text) {
    number<std::uint64_t>(text.size());
    text_ += text;
  }
  void array(std::uint32_t type, std::size_t size) {
    number(kArray);
    number(type);
    number<std::uint64_t>(size);
  }
  void value(bool value) { number(kBool), number<std::uint8_t>(value); }
  void value(std::uint32_t value) { number(kUint32), number(value); }
  void value(float value) { number(kFloat32), number(value); }
  void value(const std::string& value) { number(kString), string(value); }
  void value(const std::vector<bool>& values) {
    array(kBool, values.size());
    for (const bool each : values) number<std::uint8_t>(each);
  }
  void value(const std::vector<std::int32_t>& values) {
    array(kInt32, values.size());
    for (const std::int32_t each : values) number(each);
  }
  void value(const std::vector<float>& values) {
    array(kFloat32, values.size());
    for (const float each : values) number(each);
  }
  void value(const std::vector<std::string>& values) {
    array(kString, values.size());
    for (const std::string& each : values) string(each);
  }

  std::string finish() {
    text_.resize(align_up(text_.size(), kGgufAlignment), '\0');
    return std::move(text_);
  }

 private:
  std::string text_;
};

Bytes bytes_of(const GgufTensor& tensor) { return gguf_bytes(tensor.type, tensor.shape.elements()); }

std::string make_header(const GgufMetadata& metadata, std::span<const GgufTensor> tensors) {
  Header header;
  for (const char letter : {'G', 'G', 'U', 'F'}) header.number(letter);
  header.number(kVersion);
  header.number<std::uint64_t>(tensors.size());
  header.number<std::uint64_t>(metadata.size());
  for (const auto& [key, value] : metadata) {
    header.string(key);
    std::visit([&](const auto& each) { header.value(each); }, value);
  }
  Bytes offset = 0;
  for (const GgufTensor& tensor : tensors) {
    header.string(tensor.name);
    const std::size_t rank = tensor.shape.rank();
    header.number(static_cast<std::uint32_t>(rank));
    for (std::size_t i = rank; i-- > 0;) header.number(static_cast<std::uint64_t>(tensor.shape[i]));
    header.number(static_cast<std::uint32_t>(tensor.type));
    header.number<std::uint64_t>(offset);
    offset += align_up(bytes_of(tensor), kGgufAlignment);
  }
  return header.finish();
}

std::ptrdiff_t convert_to_halves(GgufType type, std::span<const float> values, std::span<std::byte> bytes) {
  auto* const halves = reinterpret_cast<std::uint16_t*>(bytes.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    halves[i] = type == GgufType::bf16 ? to_bf16(values[i]).bits : to_f16(values[i]).bits;
    const std::uint16_t exponent = type == GgufType::bf16 ? 0x7f80 : 0x7c00;
    if ((halves[i] & exponent) == exponent) return static_cast<std::ptrdiff_t>(i);
  }
  return -1;
}

// One block. False where its scale is beyond the range of f16.
bool convert_block(std::span<const float> values, std::byte* bytes) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  const float scale = largest / 127;
  const float inverse = scale == 0 ? 0 : 1 / scale;
  const std::uint16_t half = to_f16(scale).bits;
  if ((half & 0x7c00) == 0x7c00) return false;
  std::memcpy(bytes, &half, sizeof half);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto quantized = static_cast<std::int8_t>(std::round(values[i] * inverse));
    bytes[sizeof half + i] = static_cast<std::byte>(quantized);
  }
  return true;
}

std::ptrdiff_t convert_to_blocks(std::span<const float> values, std::span<std::byte> bytes) {
  std::size_t place = 0;
  for (std::size_t i = 0; i < values.size(); i += kGgufBlock) {
    if (!convert_block(values.subspan(i, kGgufBlock), bytes.data() + place)) return static_cast<std::ptrdiff_t>(i);
    place += gguf_bytes(GgufType::q8_0, kGgufBlock);
  }
  return -1;
}

}  // namespace

GgufType parse_gguf_type(const std::string& name) {
  for (const GgufType type : {GgufType::f32, GgufType::f16, GgufType::bf16, GgufType::q8_0}) {
    if (name == name_of(type)) return type;
  }
  throw BadInput("type \"" + name + R"(" is not supported; accepted: "f32", "f16", "bf16", "q8_0")");
}

const char* name_of(GgufType type) {
  if (type == GgufType::f32) return "f32";
  if (type == GgufType::f16) return "f16";
  return type == GgufType::bf16 ? "bf16" : "q8_0";
}

Bytes gguf_bytes(GgufType type, std::int64_t elements) {
  const auto count = static_cast<Bytes>(elements);
  if (type == GgufType::f32) return count * sizeof(float);
  if (type == GgufType::q8_0) return count / kGgufBlock * (sizeof(std::uint16_t) + kGgufBlock);
  return count * sizeof(std::uint16_t);
}

std::ptrdiff_t convert_to_gguf(GgufType type, std::span<const float> values, std::span<std::byte> bytes) {
  if (type == GgufType::q8_0) return convert_to_blocks(values, bytes);
  if (type != GgufType::f32) return convert_to_halves(type, values, bytes);
  std::memcpy(bytes.data(), values.data(), values.size_bytes());
  return -1;
}

Bytes gguf_file_bytes(const GgufMetadata& metadata, std::span<const GgufTensor> tensors) {
  Bytes bytes = make_header(metadata, tensors).size();
  for (const GgufTensor& tensor : tensors) bytes += align_up(bytes_of(tensor), kGgufAlignment);
  return bytes;
}

GgufWriter::GgufWriter(const std::filesystem::path& file, const GgufMetadata& metadata,
                       std::span<const GgufTensor> tensors)
    : file_(file), tensors_(tensors.begin(), tensors.end()) {
  const std::string header = make_header(metadata, tensors);
  file_.write_at(0, std::as_bytes(std::span(header)));
  Bytes end = header.size();
  for (const GgufTensor& tensor : tensors) {
    begins_.push_back(end);
    const Bytes bytes = bytes_of(tensor), whole = align_up(bytes, kGgufAlignment);
    const std::vector<std::byte> padding(whole - bytes);
    if (!padding.empty()) file_.write_at(end + bytes, padding);
    end += whole;
  }
}

Bytes GgufWriter::write(std::size_t tensor, std::int64_t first, std::span<const float> values) {
  const GgufTensor& its = tensors_.at(tensor);
  const Bytes bytes = gguf_bytes(its.type, static_cast<std::int64_t>(values.size()));
  converted_.resize(bytes);
  const std::ptrdiff_t wrong = convert_to_gguf(its.type, values, converted_);
  if (wrong >= 0) {
    throw BadInput(its.name + " has the weight " + std::to_string(values[static_cast<std::size_t>(wrong)]) +
                   " or one near it, beyond the range of " + name_of(its.type) + "; export bf16 or f32");
  }
  file_.write_at(begins_[tensor] + gguf_bytes(its.type, first), converted_);
  return bytes;
}

}  // namespace l2l::formats

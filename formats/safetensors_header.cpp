#include "formats/safetensors_header.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "base/json.h"
#include "l2l/errors.h"

namespace l2l::formats {

namespace {

constexpr std::pair<std::string_view, Bytes> kTypes[] = {
    {"F64", 8},     {"F32", 4},     {"F16", 2},         {"BF16", 2},        {"I64", 8},    {"I32", 4},  {"I16", 2},
    {"I8", 1},      {"U64", 8},     {"U32", 4},         {"U16", 2},         {"U8", 1},     {"BOOL", 1}, {"C64", 8},
    {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E4M3FNUZ", 1}, {"F8_E5M2FNUZ", 1}, {"F8_E8M0", 1}};

// Parses token by token (SAX), so that no tree of a hostile file is built.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  // Of `tensors` tensors, or of more or fewer.
  HeaderReader(const std::string& file, std::size_t tensors) : file_(file) { header_.tensors.reserve(tensors); }

  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) return enter(Place::header);
    if (place_ != Place::header) refuse("an object where none belongs");
    return enter(tensor_name_ == "__metadata__" ? Place::metadata : Place::tensor);
  }

  bool key(std::string& name) override {
    key_ = name;
    if (place_ == Place::header) start_entry(name);
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) end_tensor();
    place_ = place_ == Place::header ? Place::outside : Place::header;
    return true;
  }

  bool string(std::string& text) override {
    if (place_ == Place::metadata) {
      if (!header_.metadata.emplace(key_, text).second) refuse("metadata key " + show_name(key_) + " stands twice");
      return true;
    }
    if (place_ != Place::tensor || key_ != "dtype") refuse("a string where none belongs");
    if (!tensor_.dtype.empty()) refuse("dtype stands twice");
    if (text.empty()) refuse("unknown dtype \"\"");
    tensor_.dtype = text;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::tensor) refuse("an array where none belongs");
    if (key_ == "shape") return begin_numbers(Place::shape, has_shape_);
    if (key_ == "data_offsets") return begin_numbers(Place::offsets, has_offsets_);
    refuse("an array as the value of " + show_name(key_));
  }

  bool number_unsigned(std::uint64_t value) override {
    if (place_ == Place::shape) return add_dimension(value);
    if (place_ != Place::offsets) refuse("a number where none belongs");
    if (offsets_ == 2) refuse("data_offsets has more than two numbers");
    (offsets_ == 0 ? tensor_.begin : tensor_.end) = value;
    ++offsets_;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::offsets && offsets_ != 2) refuse("data_offsets has not two numbers");
    return enter(Place::tensor);
  }

  bool number_integer(std::int64_t) override { refuse("a negative number"); }
  bool number_float(double, const std::string&) override { refuse("a number that is not a whole one below 2^64"); }
  bool null() override { refuse("null where a value belongs"); }
  bool boolean(bool) override { refuse("true or false where none belongs"); }
  bool binary(binary_t&) override { refuse("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    refuse("is not JSON in UTF-8 at byte " + std::to_string(position));
  }

 private:
  enum class Place { outside, header, metadata, tensor, shape, offsets };

  [[noreturn]] void refuse(const std::string& reason) const {
    const bool in_tensor = place_ == Place::tensor || place_ == Place::shape || place_ == Place::offsets;
    throw CorruptFile(file_, std::string("header") + (in_tensor ? ", tensor " + show_name(tensor_name_) : ""), reason);
  }

  bool enter(Place place) {
    place_ = place;
    return true;
  }

  void start_entry(const std::string& name) {
    tensor_name_ = name;
    tensor_ = {};
    tensor_.name = name;
    has_shape_ = has_offsets_ = false;
    if (name == "__metadata__" && std::exchange(has_metadata_, true)) refuse("__metadata__ stands twice");
  }

  bool begin_numbers(Place place, bool& seen) {
    if (std::exchange(seen, true)) refuse(key_ + " stands twice");
    offsets_ = 0;
    return enter(place);
  }

  bool add_dimension(std::uint64_t value) {
    if (value > std::numeric_limits<std::int64_t>::max())
      refuse("dimension " + std::to_string(value) + " is too large");
    if (tensor_.shape.rank() == Shape::kMaxRank)
      refuse("rank above " + std::to_string(Shape::kMaxRank) + " is not supported");
    tensor_.shape.push_back(static_cast<std::int64_t>(value));
    return true;
  }

  void end_tensor() {
    if (tensor_.dtype.empty()) refuse("has no dtype");
    if (!has_shape_) refuse("has no shape");
    if (!has_offsets_) refuse("has no data_offsets");
    header_.tensors.push_back(std::move(tensor_));
  }

  const std::string& file_;
  SafetensorsHeader header_;
  Place place_ = Place::outside;
  std::string key_, tensor_name_;
  TensorEntry tensor_;
  int offsets_ = 0;
  bool has_shape_ = false, has_offsets_ = false, has_metadata_ = false;
};

[[noreturn]] void refuse_tensor(const std::string& file, const TensorEntry& tensor, const std::string& reason) {
  throw CorruptFile(file, "tensor " + show_name(tensor.name), reason);
}

std::string show_range(const TensorEntry& tensor) {
  return "[" + std::to_string(tensor.begin) + ", " + std::to_string(tensor.end) + ")";
}

// Empty when it does not fit in 64 bits.
std::optional<Bytes> bytes_of(const Shape& shape, Bytes element) {
  Bytes product = 0, elements = 1;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    const auto dimension = static_cast<Bytes>(shape[i]);
    if (__builtin_mul_overflow(elements, dimension, &elements)) return std::nullopt;
  }
  if (__builtin_mul_overflow(elements, element, &product)) return std::nullopt;
  return product;
}

// How many tensors a header seems to have: a list that grows is held twice as it does. Of a hostile one, no more than
// it has room for.
std::size_t guess_tensors(std::string_view json) {
  constexpr std::string_view kField = "\"data_offsets\"",
                             kShortest = R"("":{"dtype":"I8","shape":[],"data_offsets":[0,1]})";
  std::size_t count = 0;
  for (std::size_t at = json.find(kField); at != std::string_view::npos; at = json.find(kField, at + 1)) ++count;
  return std::min(count, json.size() / kShortest.size());
}

void check_tensor(const TensorEntry& tensor, Bytes data_bytes, const std::string& file) {
  const Bytes element = safetensors_element(tensor.dtype);
  if (element == 0) refuse_tensor(file, tensor, "unknown dtype " + show_name(tensor.dtype));
  const std::optional<Bytes> need = bytes_of(tensor.shape, element);
  if (!need) refuse_tensor(file, tensor, "shape " + tensor.shape.to_string() + " does not fit in 64 bits");
  if (tensor.begin > tensor.end || tensor.end > data_bytes) {
    refuse_tensor(file, tensor,
                  "data_offsets " + show_range(tensor) + " do not lie within the " + std::to_string(data_bytes) +
                      " bytes of data");
  }
  if (tensor.end - tensor.begin != *need) {
    refuse_tensor(file, tensor,
                  tensor.dtype + " " + tensor.shape.to_string() + " takes " + std::to_string(*need) +
                      " bytes, but data_offsets " + show_range(tensor) + " hold " +
                      std::to_string(tensor.end - tensor.begin));
  }
}

void check_cover(const std::vector<TensorEntry>& tensors, Bytes data_bytes, const std::string& file) {
  Bytes covered = 0;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.begin < covered) refuse_tensor(file, tensor, show_range(tensor) + " overlaps the tensor before it");
    if (tensor.begin > covered) refuse_tensor(file, tensor, "a hole of bytes lies before " + show_range(tensor));
    covered = tensor.end;
  }
  if (covered != data_bytes) {
    throw CorruptFile(file, "the last " + std::to_string(data_bytes - covered) + " bytes belong to no tensor");
  }
}

}  // namespace

Bytes safetensors_element(std::string_view dtype) {
  const auto* const type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& t) { return t.first == dtype; });
  return type == std::end(kTypes) ? 0 : type->second;
}

std::string show_name(std::string_view name) {
  std::string text = "\"";
  for (const char c : name.substr(0, 120)) text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return text + (name.size() > 120 ? "...\"" : "\"");
}

SafetensorsHeader parse_safetensors_header(std::string_view json, Bytes data_bytes, const std::string& file) {
  // The library skips a byte order mark and takes a NUL for the end; the format allows neither.
  if (json.empty() || json.front() != '{') throw CorruptFile(file, "header", "does not begin with '{'");
  if (json.find('\0') != std::string_view::npos) throw CorruptFile(file, "header", "holds a NUL byte");
  HeaderReader reader(file, guess_tensors(json));
  parse_json(json, reader);
  SafetensorsHeader header = reader.take();
  for (const TensorEntry& tensor : header.tensors) check_tensor(tensor, data_bytes, file);
  const auto lies_before = [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  };
  if (!std::is_sorted(header.tensors.begin(), header.tensors.end(), lies_before)) {
    std::stable_sort(header.tensors.begin(), header.tensors.end(), lies_before);
  }
  check_cover(header.tensors, data_bytes, file);
  return header;
}

}  // namespace l2l::formats

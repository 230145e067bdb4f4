#include "formats/npy_header.h"

#include <array>
#include <charconv>
#include <string_view>

#include "core/checked.h"
#include "l2l/errors.h"

namespace l2l::formats {
namespace {

// The text of a header, a literal of a Python dictionary: {'descr': '|u1', 'fortran_order': False, 'shape': (3, 4), }.
class NpyLiteral {
 public:
  explicit NpyLiteral(const InputFile& file) : file_(file) {
    constexpr std::string_view kMagic = "\x93NUMPY";
    constexpr Bytes kMost = 1 << 16;
    std::array<std::uint8_t, 12> first{};
    if (file.bytes() < first.size()) refuse("the header is cut short");
    file.read(0, std::as_writable_bytes(std::span(first)));
    if (!std::equal(kMagic.begin(), kMagic.end(), first.begin(),
                    [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; })) {
      refuse("is no array of NumPy");
    }
    const int version = first[6];
    if (version < 1 || version > 3) refuse("version " + std::to_string(version) + " is not known");
    const Bytes begin = version == 1 ? 10 : 12;
    const Bytes more = version == 1 ? 0 : static_cast<Bytes>(first[10]) << 16 | static_cast<Bytes>(first[11]) << 24;
    const Bytes length = first[8] | static_cast<Bytes>(first[9]) << 8 | more;
    if (length > kMost || length > file.bytes() - begin) refuse("the header is cut short");
    text_.resize(length);
    file.read(begin, std::as_writable_bytes(std::span(text_)));
    end_ = begin + length;
  }

  Bytes end() const { return end_; }

  // What stands for `key`, between `begin` and `end`.
  std::string_view value(const std::string& key, std::string_view begin, std::string_view end) const {
    const std::string_view text = text_;
    const std::string name = "'" + key + "':";
    std::size_t at = text.find(name);
    if (at == std::string_view::npos) refuse("the header has no '" + key + "'");
    at = text.find_first_not_of(' ', at + name.size());
    if (at == std::string_view::npos || !text.substr(at).starts_with(begin)) {
      refuse("'" + key + "' of the header is not what it should be");
    }
    at += begin.size();
    const std::size_t past = text.find(end, at);
    if (past == std::string_view::npos) refuse("'" + key + "' of the header does not end");
    return text.substr(at, past - at);
  }

  std::vector<std::uint64_t> shape() const {
    std::vector<std::uint64_t> shape;
    for (std::string_view left = value("shape", "(", ")"); !left.empty();) {
      std::uint64_t size = 0;
      const auto [past, error] = std::from_chars(left.data(), left.data() + left.size(), size);
      if (error != std::errc()) refuse("'shape' of the header is not a tuple of sizes");
      shape.push_back(size);
      left.remove_prefix(static_cast<std::size_t>(past - left.data()));
      const std::size_t next = left.find_first_not_of(", ");
      left.remove_prefix(next == std::string_view::npos ? left.size() : next);
    }
    return shape;
  }

  [[noreturn]] void refuse(const std::string& reason) const {
    throw CorruptFile(file_.path().string(), "npy: " + reason);
  }

 private:
  const InputFile& file_;
  std::string text_;
  Bytes end_ = 0;
};

bool is_npy_number(std::string_view type) {
  return type.size() == 3 && std::string_view("<>|").find(type[0]) != std::string_view::npos &&
         std::string_view("biuf").find(type[1]) != std::string_view::npos && type[2] >= '1' && type[2] <= '8';
}

}  // namespace

NpyHeader read_npy_header(const InputFile& file) {
  const NpyLiteral literal(file);
  NpyHeader header{
      .type = std::string(literal.value("descr", "'", "'")), .shape = literal.shape(), .begin = literal.end()};
  header.fortran_order = !literal.value("fortran_order", "", ",").starts_with("False");
  if (!is_npy_number(header.type)) literal.refuse("elements of type " + header.type + " are no numbers that are read");
  Bytes bytes = header.element_bytes();
  for (const std::uint64_t size : header.shape) bytes = checked_multiply(bytes, size, file.path().string() + ": npy");
  if (bytes != file.bytes() - header.begin) {
    literal.refuse("'shape' stands for " + std::to_string(bytes) + " bytes; the file has " +
                   std::to_string(file.bytes() - header.begin) + " behind its header");
  }
  return header;
}

}  // namespace l2l::formats

#include "formats/npy.h"

#include <string>

#include "l2l/errors.h"

namespace l2l::formats {

NpyWriter::NpyWriter(const std::filesystem::path& file, std::int64_t rows, std::int64_t columns)
    : name_(file), beside_(file), file_(beside_.path()), columns_(columns) {
  constexpr std::size_t kAlignment = 64, kFixed = 10;  // magic, version and length of the header
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                       std::to_string(columns) + "), }";
  header.append(kAlignment - (kFixed + header.size() + 1) % kAlignment, ' ');
  header += '\n';
  const auto length = static_cast<std::uint16_t>(header.size());
  std::string text = "\x93NUMPY\x01";
  text.append({'\0', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)});
  text += header;
  file_.write(text);
  begin_ = text.size();
}

void NpyWriter::finish() {
  file_.finish();
  if (const std::error_code error = beside_.take_place())
    throw Error(name_.string() + ": cannot be written: " + error.message());
}

void NpyWriter::write(std::int64_t row, std::int64_t column, std::span<const float> elements) {
  file_.write_at(begin_ + static_cast<Bytes>(row * columns_ + column) * sizeof(float), std::as_bytes(elements));
}

}  // namespace l2l::formats

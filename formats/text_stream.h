// Text files, also as gzip and zstd compress them, read in windows. RFC 1952 (gzip), RFC 8878 (Zstandard).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/bytes.h"

namespace l2l::formats {

enum class Compression : std::uint8_t { none, gzip, zstd };

// By the file's first bytes. Throws BadInput when it cannot be read.
Compression compression_of(const std::filesystem::path& file);

// Thread-bound. Every function throws BadInput naming the file: when it cannot be read, became shorter, or holds what
// its format does not allow; and at the first byte of a compressed file that this program was built without.
class TextStream {
 public:
  explicit TextStream(const std::filesystem::path& file);
  ~TextStream();
  TextStream(TextStream&&) noexcept;
  TextStream& operator=(TextStream&&) = delete;

  const std::filesystem::path& file() const;
  // The next bytes; fewer than asked for at the end of the text alone.
  std::size_t read(std::span<char> bytes);
  // The next line without its end, "\n" or "\r\n"; false at the end of the text. Refuses one of more than `most` bytes:
  // a few bytes that were compressed may stand for any number.
  bool read_line(std::string& line, Bytes most);
  // What is left of the text, which must be at most `most` bytes.
  std::string rest(Bytes most);
  // Of the file, so far, compressed or not: for progress.
  Bytes consumed() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace l2l::formats

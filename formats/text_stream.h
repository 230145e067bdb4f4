// Text files, also as gzip and zstd compress them, read in windows. RFC 1952 (gzip), RFC 8878 (Zstandard).
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/files.h"
#include "formats/decompressor.h"

namespace l2l::formats {

enum class Compression : std::uint8_t { none, gzip, zstd };

// By the file's first bytes. Throws BadInput when it cannot be read.
Compression compression_of(const std::filesystem::path& file);

// Thread-bound. Every function throws BadInput naming the file: when it cannot be read, became shorter, or holds what
// its format does not allow; and at the first byte of a compressed file that this program was built without.
class TextStream {
 public:
  explicit TextStream(const std::filesystem::path& file);

  const std::filesystem::path& file() const { return file_->path(); }
  // How much to read at once: little of a small file, because clearing a large buffer takes longer than reading it.
  std::size_t window() const;
  // The next bytes; fewer than asked for at the end of the text alone.
  std::size_t read(std::span<char> bytes);
  // The next line without its end, "\n" or "\r\n"; false at the end of the text. Refuses one of more than `most` bytes:
  // a few bytes that were compressed may stand for any number.
  bool read_line(std::string& line, Bytes most);
  // The end of the line that was read last; empty where the text ends without one.
  std::string_view line_end() const { return line_end_; }
  // What is left of the text, which must be at most `most` bytes.
  std::string rest(Bytes most);
  // Of the file, so far, compressed or not: for progress.
  Bytes consumed() const { return offset_ - (input_end_ - input_begin_); }

 private:
  [[noreturn]] void refuse(const std::string& reason) const;
  void fill_input();
  std::size_t read_on(std::span<char> bytes);  // behind `window_`

  std::unique_ptr<InputFile> file_;
  std::unique_ptr<Decompressor> decompressor_;  // null: the file is the text
  std::vector<std::byte> input_;                // of a compressed file
  std::size_t input_begin_ = 0, input_end_ = 0;
  Bytes offset_ = 0;  // of the file, behind `input_`
  bool at_end_ = true;
  Bytes total_ = 0;           // of the text that was compressed, so far
  std::vector<char> window_;  // of the text, read ahead for lines
  std::size_t window_begin_ = 0, window_end_ = 0;
  std::string_view line_end_;
};

}  // namespace l2l::formats

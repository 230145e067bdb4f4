#include "formats/text_stream.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "l2l/errors.h"

namespace l2l::formats {
namespace {

constexpr std::size_t kWindow = 1 << 20;
constexpr Bytes kSuspicious = Bytes{256} << 20;  // from there on, expansion is looked at
constexpr Bytes kMostExpansion = 500;            // text that people compress shrinks to a third or a tenth

Compression compression_of(const InputFile& file) {
  std::array<std::byte, 4> first{};
  const auto begin = std::span(first).first(std::min<Bytes>(first.size(), file.bytes()));
  file.read(0, begin);
  constexpr std::array<unsigned char, 2> kGzip = {0x1f, 0x8b};
  constexpr std::array<unsigned char, 4> kZstd = {0x28, 0xb5, 0x2f, 0xfd};
  if (begin.size() >= 2 && std::memcmp(first.data(), kGzip.data(), 2) == 0) return Compression::gzip;
  if (begin.size() >= 4 && std::memcmp(first.data(), kZstd.data(), 4) == 0) return Compression::zstd;
  return Compression::none;
}

}  // namespace

Compression compression_of(const std::filesystem::path& file) { return compression_of(InputFile(file)); }

void TextStream::refuse(const std::string& reason) const { throw CorruptFile(file_->path().string(), reason); }

void TextStream::fill_input() {
  const std::size_t count = std::min<Bytes>(kWindow, file_->bytes() - offset_);
  input_.resize(count);
  file_->read(offset_, std::span(input_).first(count));
  offset_ += count;
  input_begin_ = 0;
  input_end_ = count;
}

std::size_t TextStream::read_on(std::span<char> bytes) try {
  if (decompressor_ == nullptr) {
    const std::size_t count = std::min<Bytes>(bytes.size(), file_->bytes() - offset_);
    file_->read(offset_, std::as_writable_bytes(bytes.first(count)));
    offset_ += count;
    return count;
  }
  std::size_t made = 0;
  while (made < bytes.size()) {
    if (input_begin_ == input_end_ && offset_ < file_->bytes()) fill_input();
    const bool no_more = input_begin_ == input_end_;
    if (no_more && at_end_) return made;
    const Decompressor::Progress progress =
        decompressor_->decompress(std::span<const std::byte>(input_).subspan(input_begin_, input_end_ - input_begin_),
                                  std::as_writable_bytes(bytes.subspan(made)));
    input_begin_ += progress.taken;
    made += progress.made;
    at_end_ = progress.at_end;
    total_ += progress.made;
    if (total_ > kSuspicious && total_ / kMostExpansion > offset_) {
      refuse("stands for more than " + std::to_string(kMostExpansion) + " times its size: that is no text");
    }
    if (no_more && progress.made == 0 && !at_end_) refuse("ends within what was compressed: it is cut short");
  }
  return made;
} catch (const CorruptFile&) {
  throw;
} catch (const BadInput& error) {  // of the decompressor
  refuse(error.what());
}

TextStream::TextStream(const std::filesystem::path& file) : file_(std::make_unique<InputFile>(file)) {
  const Compression compression = compression_of(*file_);
  try {
    if (compression == Compression::gzip) decompressor_ = make_gzip();
    if (compression == Compression::zstd) decompressor_ = make_zstd();
  } catch (const BadInput& error) {
    refuse(error.what());
  }
}

std::size_t TextStream::window() const {
  constexpr Bytes kLeast = 4096, kExpansion = 8;
  return std::clamp<Bytes>(kExpansion * std::min<Bytes>(file_->bytes(), kWindow), kLeast, kWindow);
}

std::size_t TextStream::read(std::span<char> bytes) {
  const std::size_t ahead = std::min(bytes.size(), window_end_ - window_begin_);
  std::copy_n(window_.begin() + static_cast<std::ptrdiff_t>(window_begin_), ahead, bytes.begin());
  window_begin_ += ahead;
  return ahead + read_on(bytes.subspan(ahead));
}

bool TextStream::read_line(std::string& line, Bytes most) {
  line.clear();
  line_end_ = {};
  while (true) {
    if (window_begin_ == window_end_) {
      window_.resize(window());
      window_begin_ = 0;
      window_end_ = read_on(window_);
      if (window_end_ == 0) return !line.empty();
    }
    const char* const begin = window_.data() + window_begin_;
    const std::size_t left = window_end_ - window_begin_;
    const void* const end = std::memchr(begin, '\n', left);
    const std::size_t count = end == nullptr ? left : static_cast<std::size_t>(static_cast<const char*>(end) - begin);
    if (line.size() + count > most) refuse("has a line of more than " + format_bytes(most));
    line.append(begin, count);
    window_begin_ += count;
    if (end == nullptr) continue;
    ++window_begin_;
    line_end_ = line.ends_with('\r') ? "\r\n" : "\n";
    if (line_end_.size() == 2) line.pop_back();
    return true;
  }
}

std::string TextStream::rest(Bytes most) {
  std::string text;
  std::vector<char> part(window());
  while (const std::size_t count = read(part)) {
    if (text.size() + count > most) refuse("holds a text of more than " + format_bytes(most));
    text.append(part.data(), count);
  }
  return text;
}

}  // namespace l2l::formats

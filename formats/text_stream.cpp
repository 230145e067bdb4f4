#include "formats/text_stream.h"

#include <array>
#include <cstring>
#include <vector>

#include "core/files.h"
#include "formats/decompressor.h"
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

struct TextStream::Implementation {
  std::unique_ptr<InputFile> file;
  std::unique_ptr<Decompressor> decompressor;  // null: the file is the text
  std::vector<std::byte> input;                // of a compressed file
  std::size_t input_begin = 0, input_end = 0;
  Bytes offset = 0;  // of the file, behind `input`
  bool at_end = true;
  Bytes total = 0;           // of the text that was compressed, so far
  std::vector<char> window;  // of the text, read ahead for lines
  std::size_t window_begin = 0, window_end = 0;

  [[noreturn]] void refuse(const std::string& reason) const {
    throw CorruptFile(file->path().string() + ": " + reason);
  }

  void fill_input() {
    const std::size_t count = std::min<Bytes>(kWindow, file->bytes() - offset);
    input.resize(kWindow);
    file->read(offset, std::span(input).first(count));
    offset += count;
    input_begin = 0;
    input_end = count;
  }

  std::size_t read(std::span<char> bytes) try {
    if (decompressor == nullptr) {
      const std::size_t count = std::min<Bytes>(bytes.size(), file->bytes() - offset);
      file->read(offset, std::as_writable_bytes(bytes.first(count)));
      offset += count;
      return count;
    }
    std::size_t made = 0;
    while (made < bytes.size()) {
      if (input_begin == input_end && offset < file->bytes()) fill_input();
      const bool no_more = input_begin == input_end;
      if (no_more && at_end) return made;
      const Decompressor::Progress progress =
          decompressor->decompress(std::span<const std::byte>(input).subspan(input_begin, input_end - input_begin),
                                   std::as_writable_bytes(bytes.subspan(made)));
      input_begin += progress.taken;
      made += progress.made;
      at_end = progress.at_end;
      total += progress.made;
      if (total > kSuspicious && total / kMostExpansion > offset) {
        refuse("stands for more than " + std::to_string(kMostExpansion) + " times its size: that is no text");
      }
      if (no_more && progress.made == 0 && !at_end) refuse("ends within what was compressed: it is cut short");
    }
    return made;
  } catch (const CorruptFile&) {
    throw;
  } catch (const BadInput& error) {  // of the decompressor
    refuse(error.what());
  }
};

TextStream::TextStream(const std::filesystem::path& file) : implementation_(std::make_unique<Implementation>()) {
  implementation_->file = std::make_unique<InputFile>(file);
  const Compression compression = compression_of(*implementation_->file);
  try {
    if (compression == Compression::gzip) implementation_->decompressor = make_gzip();
    if (compression == Compression::zstd) implementation_->decompressor = make_zstd();
  } catch (const BadInput& error) {
    implementation_->refuse(error.what());
  }
}
TextStream::~TextStream() = default;
TextStream::TextStream(TextStream&&) noexcept = default;

const std::filesystem::path& TextStream::file() const { return implementation_->file->path(); }

std::size_t TextStream::read(std::span<char> bytes) {
  Implementation& self = *implementation_;
  const std::size_t ahead = std::min(bytes.size(), self.window_end - self.window_begin);
  std::copy_n(self.window.begin() + static_cast<std::ptrdiff_t>(self.window_begin), ahead, bytes.begin());
  self.window_begin += ahead;
  return ahead + self.read(bytes.subspan(ahead));
}

bool TextStream::read_line(std::string& line, Bytes most) {
  Implementation& self = *implementation_;
  line.clear();
  while (true) {
    if (self.window_begin == self.window_end) {
      self.window.resize(kWindow);
      self.window_begin = 0;
      self.window_end = self.read(self.window);
      if (self.window_end == 0) return !line.empty();
    }
    const char* const begin = self.window.data() + self.window_begin;
    const std::size_t left = self.window_end - self.window_begin;
    const void* const end = std::memchr(begin, '\n', left);
    const std::size_t count = end == nullptr ? left : static_cast<std::size_t>(static_cast<const char*>(end) - begin);
    if (line.size() + count > most) self.refuse("has a line of more than " + format_bytes(most));
    line.append(begin, count);
    self.window_begin += count;
    if (end == nullptr) continue;
    ++self.window_begin;
    if (line.ends_with('\r')) line.pop_back();
    return true;
  }
}

std::string TextStream::rest(Bytes most) {
  std::string text;
  std::vector<char> window(kWindow);
  while (const std::size_t count = read(window)) {
    if (text.size() + count > most) implementation_->refuse("holds a text of more than " + format_bytes(most));
    text.append(window.data(), count);
  }
  return text;
}

Bytes TextStream::consumed() const {
  const Implementation& self = *implementation_;
  return self.offset - (self.input_end - self.input_begin);
}

}  // namespace l2l::formats

#include "formats/png_file.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <span>
#include <string>

#include "core/files.h"
#include "l2l/errors.h"

namespace l2l::formats {
namespace {

constexpr std::uint64_t kMostPixels = 1 << 28;  // of an image; a damaged header may say any number

ImageShape checked_shape(const std::filesystem::path& file, std::uint64_t height, std::uint64_t width, int color) {
  if (height == 0 || width == 0 || height > kMostPixels || width > kMostPixels / height) {
    throw CorruptFile(file.string(), "PNG: has " + std::to_string(height) + " x " + std::to_string(width) +
                                         " pixels; 1 to 2^28 are read");
  }
  return {static_cast<int>(height), static_cast<int>(width), (color & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1};
}

// Decodes a file that is in memory. libpng leaves its functions by longjmp(), which must pass no destructor: what
// attempt() calls has no objects with one. Thread-bound.
class PngDecoder {
 public:
  PngDecoder(const std::filesystem::path& file, std::span<const std::byte> content) : file_(file), content_(content) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, [](png_structp, png_const_charp) {});
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ != nullptr) return;
    png_destroy_read_struct(&png_, nullptr, nullptr);
    throw OutOfMemory(file.string() + ": no memory for libpng");
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  ImageShape decode(std::vector<std::uint8_t>& pixels) {
    attempt([this] { read_header(); });
    const ImageShape shape = checked_shape(file_, png_get_image_height(png_, info_), png_get_image_width(png_, info_),
                                           png_get_color_type(png_, info_));
    const auto height = static_cast<std::size_t>(shape.height);
    attempt([this] { png_read_update_info(png_, info_); });
    if (png_get_rowbytes(png_, info_) != shape.row())
      throw CorruptFile(file_.string(), "PNG: has rows of another size");
    pixels.resize(shape.bytes());
    std::vector<png_bytep> rows(height);
    for (std::size_t row = 0; row < height; ++row) rows[row] = pixels.data() + row * shape.row();
    attempt([this, &rows] { png_read_image(png_, rows.data()); });
    return shape;
  }

 private:
  template <typename Call>
  void attempt(const Call& call) {
    if (setjmp(png_jmpbuf(png_)) != 0) throw CorruptFile(file_.string(), std::string("PNG: ") + message_.data());
    call();
  }

  void read_header() {
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_benign_errors(png_, 1);
    png_set_read_fn(png_, this, copy);
    png_read_info(png_, info_);
    png_set_strip_16(png_);
    png_set_palette_to_rgb(png_);
    if (png_get_color_type(png_, info_) == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
    png_set_strip_alpha(png_);
    png_set_interlace_handling(png_);
  }

  [[noreturn]] static void fail(png_structp png, png_const_charp message) {
    PngDecoder& decoder = *static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::strncpy(decoder.message_.data(), message, decoder.message_.size() - 1);
    png_longjmp(png, 1);
  }

  static void copy(png_structp png, png_bytep destination, std::size_t bytes) {
    PngDecoder& decoder = *static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (bytes > decoder.content_.size()) png_error(png, "the file is cut short");
    std::memcpy(destination, decoder.content_.data(), bytes);
    decoder.content_ = decoder.content_.subspan(bytes);
  }

  const std::filesystem::path& file_;
  std::span<const std::byte> content_;  // what was not read yet
  std::array<char, 128> message_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

ImageShape png_shape(const std::filesystem::path& file) {
  constexpr std::size_t kHeight = 20, kWidth = 16, kColor = 25;  // in the first chunk, IHDR
  std::array<std::uint8_t, 33> first{};
  const InputFile input(file);
  if (input.bytes() < first.size()) throw CorruptFile(file.string(), "PNG: the file is cut short");
  input.read(0, std::as_writable_bytes(std::span(first)));
  if (png_sig_cmp(first.data(), 0, 8) != 0) throw CorruptFile(file.string(), "PNG: Not a PNG file");
  return checked_shape(file, png_get_uint_32(&first[kHeight]), png_get_uint_32(&first[kWidth]), first[kColor]);
}

ImageShape read_png(const std::filesystem::path& file, std::vector<std::uint8_t>& pixels) {
  const InputFile input(file);
  std::vector<std::byte> content(input.bytes());
  input.read(0, content);
  return PngDecoder(file, content).decode(pixels);
}

}  // namespace l2l::formats

// Images in PNG files (W3C, Portable Network Graphics, 3rd edition).
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace l2l::formats {

// Bytes of an image lie row by row, and the channels of a pixel side by side.
struct ImageShape {
  int height = 0, width = 0;
  int channels = 0;  // 1: gray; 3: red, green, blue
  bool operator==(const ImageShape&) const = default;

  std::size_t row() const { return static_cast<std::size_t>(width) * static_cast<std::size_t>(channels); }
  std::size_t bytes() const { return static_cast<std::size_t>(height) * row(); }
};

// Of the header alone. Both throw CorruptFile naming the file and what is wrong with it; in a program without libpng
// they throw BadInput.
ImageShape png_shape(const std::filesystem::path& file);

// Makes `pixels` the image's 8-bit samples, as PIL's Image.convert("RGB") or, of gray ones, convert("L") has them: the
// higher byte of 16-bit ones; palettes looked up; transparency, background and gamma ignored. Thread-safe.
ImageShape read_png(const std::filesystem::path& file, std::vector<std::uint8_t>& pixels);

}  // namespace l2l::formats

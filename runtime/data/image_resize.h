// Images of bytes scaled to another size.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/png_file.h"

namespace l2l::runtime {

using formats::ImageShape;

// A rectangle of an image.
struct ImageView {
  const std::uint8_t* pixels = nullptr;  // of its first row
  ImageShape shape;
  std::size_t stride = 0;  // bytes from a row to the next

  static ImageView of(const std::vector<std::uint8_t>& pixels, const ImageShape& shape) {
    return {pixels.data(), shape, shape.row()};
  }
  ImageView part(int top, int left, int height, int width) const {
    const auto offset = static_cast<std::size_t>(top) * stride + static_cast<std::size_t>(left * shape.channels);
    return {pixels + offset, {height, width, shape.channels}, stride};
  }
};

// What a scaled image has, and which part of it is wanted.
struct Scaling {
  std::int64_t height = 0, width = 0;  // of the whole
  std::int64_t top = 0, left = 0;
  int part_height = 0, part_width = 0;
};

// By a triangle filter that grows with the factor, first along rows, then along columns, in fixed point and rounded
// after each: the bits of PIL's Image.resize(.., BILINEAR) (Pillow 12, Resample.c; 13 may begin with columns, by which
// some bytes differ by 1). `pixels` becomes the part. `rows`: for its own use, kept so that it is not allocated again.
void resize_image(const ImageView& image, const Scaling& scaling, std::vector<std::uint8_t>& rows,
                  std::vector<std::uint8_t>& pixels);

}  // namespace l2l::runtime

// Windows that slide over images [samples, height, width, channels], on the host.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/kernels/convert.h"
#include "device/kernels/elementwise.h"

namespace l2l::device::kernels {

struct Windows {
  // Rows or columns of a window, of which [begin, end) lie inside of the image.
  struct Inside {
    std::int64_t begin, end;
  };

  std::int64_t samples, height, width, channels;
  compiler::Window window;
  std::int64_t rows = window.places(0, height), columns = window.places(1, width);  // of places

  explicit Windows(const compiler::Attributes& attributes)
      : samples(attributes.dims[0]),
        height(attributes.dims[1]),
        width(attributes.dims[2]),
        channels(attributes.dims[3]),
        window(attributes.image_window) {}

  std::int64_t size(std::size_t side) const { return window.size[side]; }
  std::int64_t dilation(std::size_t side) const { return window.dilation[side]; }
  std::int64_t elements() const { return size(0) * size(1); }  // of a window, in each channel

  // Row or column of the image that the first of the window at `place` has; may lie outside.
  std::int64_t first(std::size_t side, std::int64_t place) const {
    return place * window.stride[side] - window.padding[side];
  }

  Inside inside(std::size_t side, std::int64_t place) const {
    const std::int64_t begin = steps_to(side, -first(side, place));
    return {begin, std::max(begin, steps_to(side, (side == 0 ? height : width) - first(side, place)))};
  }

  // Calls take(i, place) for each row i of the window and each place along the height where that row is row `y` of the
  // image.
  template <typename Take>
  void for_rows_at(std::int64_t y, const Take& take) const {
    for (std::int64_t i = 0; i < size(0); ++i) {
      const std::int64_t distance = y + window.padding[0] - i * dilation(0);
      if (distance < 0) return;
      if (distance % window.stride[0] == 0 && distance / window.stride[0] < rows) take(i, distance / window.stride[0]);
    }
  }

  // Calls take(i, count, x) for columns [i, i + count) of the window at `place`, which are those from x on of the
  // image: all of `inside` where these are neighbours, or else each.
  template <typename Take>
  void for_runs(const Inside& inside, std::int64_t place, const Take& take) const {
    const std::int64_t left = first(1, place);
    if (dilation(1) == 1) {
      if (inside.begin < inside.end) take(inside.begin, inside.end - inside.begin, left + inside.begin);
      return;
    }
    for (std::int64_t i = inside.begin; i < inside.end; ++i) take(i, std::int64_t{1}, left + i * dilation(1));
  }

 private:
  // How many rows or columns of the window lie less than `distance` behind its first.
  std::int64_t steps_to(std::size_t side, std::int64_t distance) const {
    return std::clamp((distance + dilation(side) - 1) / dilation(side), std::int64_t{0}, size(side));
  }
};

// Gradients of images, a row of an image at a time: sums in fp32 in a line of the worker.
template <typename T>
struct ImageRows {
  Windows windows;

  std::int64_t columns() const { return windows.width * windows.channels; }
  std::int64_t stride() const { return (columns() + 15) / 16 * 16; }
  Bytes workspace(int threads) const { return static_cast<Bytes>(threads * stride()) * sizeof(float); }

  // Calls add(sample, y, line) for each row y of each sample, in parallel, and rounds what it adds to the line, which
  // is 0 before, divided by `divisor`.
  template <typename Add>
  void write(T* dx, float divisor, std::byte* workspace, Workers& workers, const Add& add) const {
    const std::int64_t work = columns() * windows.elements();
    const Partition blocks = row_blocks(windows.samples * windows.height, work);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int slot) {
      float* const line = as<float>(workspace) + slot * stride();
      for (std::int64_t row = blocks.begin(block); row < blocks.end(block); ++row) {
        std::fill_n(line, columns(), 0.0f);
        add(row / windows.height, row % windows.height, line);
        if (divisor != 1) {
#pragma omp simd
          for (std::int64_t i = 0; i < columns(); ++i) line[i] /= divisor;
        }
        narrow_row(line, dx + row * columns(), columns());
      }
    });
  }
};

template <typename T>
void add_widened(const T* source, std::int64_t count, float* sums) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) sums[i] += widen(source[i]);
}

}  // namespace l2l::device::kernels

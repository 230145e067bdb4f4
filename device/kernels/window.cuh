// A window that slides over an image [N, height, width, C] whose rows are its points: unfold, fold, depthwise and the
// pools.
#pragma once

#include <limits>
#include <string>

#include "device/kernels/common/elementwise.cuh"

namespace l2l::device::cuda {

// Pairs are of height and width.
struct SlidingWindow {
  std::int32_t image[2], places[2], size[2], stride[2], padding[2], dilation[2];

  // Throws BadInput when 32 bits cannot count the points that the window may reach.
  explicit SlidingWindow(const compiler::Attributes& attributes) {
    const compiler::Window& window = attributes.image_window;
    for (const std::size_t side : {0u, 1u}) {
      const std::int64_t extent = attributes.dims[1 + side];
      const std::int64_t reach = std::int64_t{window.dilation[side]} * window.size[side];
      if (extent + 2 * std::int64_t{window.padding[side]} + reach + window.stride[side] >
          std::numeric_limits<std::int32_t>::max()) {
        throw BadInput("a window of " + std::to_string(window.size[side]) + " elements over " + std::to_string(extent) +
                       " is too large");
      }
      image[side] = static_cast<std::int32_t>(extent);
      places[side] = static_cast<std::int32_t>(window.places(side, extent));
      size[side] = window.size[side];
      stride[side] = window.stride[side];
      padding[side] = window.padding[side];
      dilation[side] = window.dilation[side];
    }
  }

  __host__ __device__ std::int32_t area() const { return size[0] * size[1]; }

  struct Point {
    std::int64_t sample;
    std::int32_t y, x;
  };
  __device__ Point place(std::int64_t row) const { return point(row, places); }
  __device__ Point pixel(std::int64_t row) const { return point(row, image); }

  // The image's row under element (ky, kx) of the window at `place`; -1: outside the image.
  __device__ std::int64_t row_under(const Point& place, std::int32_t ky, std::int32_t kx) const {
    const std::int32_t y = place.y * stride[0] - padding[0] + ky * dilation[0];
    const std::int32_t x = place.x * stride[1] - padding[1] + kx * dilation[1];
    if (y < 0 || y >= image[0] || x < 0 || x >= image[1]) return -1;
    return (place.sample * image[0] + y) * image[1] + x;
  }

  // Calls visit(row of the image, element of the window) for what the window at `place` covers of the image, elements
  // in ascending order.
  template <typename Visit>
  __device__ void each_covered(const Point& place, const Visit& visit) const {
    for (std::int32_t ky = 0; ky < size[0]; ++ky) {
      for (std::int32_t kx = 0; kx < size[1]; ++kx) {
        const std::int64_t row = row_under(place, ky, kx);
        if (row >= 0) visit(row, ky * size[1] + kx);
      }
    }
  }

  // Calls visit(place, its row, element of the window) for the places where the window covers `pixel`, elements in
  // ascending order.
  template <typename Visit>
  __device__ void each_covering(const Point& pixel, const Visit& visit) const {
    for (std::int32_t ky = 0; ky < size[0]; ++ky) {
      const std::int32_t y = place_that_covers(pixel.y, 0, ky);
      if (y < 0) continue;
      for (std::int32_t kx = 0; kx < size[1]; ++kx) {
        const std::int32_t x = place_that_covers(pixel.x, 1, kx);
        if (x < 0) continue;
        visit(Point{pixel.sample, y, x}, (pixel.sample * places[0] + y) * places[1] + x, ky * size[1] + kx);
      }
    }
  }

 private:
  __device__ static Point point(std::int64_t row, const std::int32_t (&extents)[2]) {
    const auto index = static_cast<std::uint32_t>(row), width = static_cast<std::uint32_t>(extents[1]);
    const std::uint32_t line = index / width, sample = line / static_cast<std::uint32_t>(extents[0]);
    return {sample, static_cast<std::int32_t>(line - sample * static_cast<std::uint32_t>(extents[0])),
            static_cast<std::int32_t>(index - line * width)};
  }

  // Along one side, the place whose element k is at `position`; -1: there is none.
  __device__ std::int32_t place_that_covers(std::int32_t position, int side, std::int32_t k) const {
    const std::int32_t begin = position + padding[side] - k * dilation[side];
    if (begin < 0) return -1;
    const auto step = static_cast<std::uint32_t>(stride[side]);
    const auto place = static_cast<std::int32_t>(static_cast<std::uint32_t>(begin) / step);
    return place * stride[side] == begin && place < places[side] ? place : -1;
  }
};

// y[e * channels + c] = w[c * elements + e]: weights of windows as the threads of a place read them.
template <typename T>
__global__ void __launch_bounds__(kElementwiseThreads)
    transpose_weights(std::int64_t channels, std::int64_t elements, const T* w, T* y) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kElementwiseThreads + threadIdx.x;
  if (i < channels * elements) y[i] = w[i % channels * elements + i / channels];
}
template <typename T>
void launch_transpose_weights(std::int64_t channels, std::int64_t elements, const T* w, T* y, cudaStream_t stream) {
  launch("transpose_weights", transpose_weights<T>,
         {ceil_div(channels * elements, kElementwiseThreads), kElementwiseThreads}, stream, channels, elements, w, y);
}

// Base of the bodies whose rows are points of the image or places of the window.
template <typename T>
struct WindowBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  SlidingWindow window;

  explicit WindowBody(const OpView& op) : ElementwiseBody(op), window(op.attributes) {
    columns = op.output(0).shape[1];
  }
};

}  // namespace l2l::device::cuda

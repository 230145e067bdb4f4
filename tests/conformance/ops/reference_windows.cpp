// References of the ops whose windows slide over images.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tests/conformance/ops/reference.h"

namespace l2l::test {
namespace {

// One side of an image and of the window: height or width.
struct Side {
  std::int64_t extent, size, stride, padding, dilation;

  Side(const compiler::Attributes& attributes, std::size_t side)
      : extent(attributes.dims[1 + side]),
        size(attributes.image_window.size[side]),
        stride(attributes.image_window.stride[side]),
        padding(attributes.image_window.padding[side]),
        dilation(attributes.image_window.dilation[side]) {}

  // Where the window's element `tap` is when the window is at `place`; outside the image below 0 and from `extent` on.
  std::int64_t position(std::int64_t place, std::int64_t tap) const {
    return place * stride - padding + tap * dilation;
  }
  // As long as its last element is inside the padded image, the window may move on.
  std::int64_t places() const {
    std::int64_t count = 0;
    while (position(count, size - 1) < extent + padding) ++count;
    return count;
  }
  bool inside(std::int64_t position) const { return position >= 0 && position < extent; }
};

struct SlidingWindow {
  Side height, width;
  std::int64_t samples, channels;

  explicit SlidingWindow(const ReferenceCall& call)
      : height(call.op.attributes, 0),
        width(call.op.attributes, 1),
        samples(call.op.attributes.dims[0]),
        channels(call.op.attributes.dims[3]) {}

  std::size_t taps() const { return static_cast<std::size_t>(height.size * width.size); }

  // visit(row, tap, pixel) for what every window covers inside the image, in the window's order: `row` counts
  // the windows, `pixel` the rows of the image.
  template <typename Visit>
  void each(const Visit& visit) const {
    std::size_t row = 0;
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      for (std::int64_t oy = 0; oy < height.places(); ++oy) {
        for (std::int64_t ox = 0; ox < width.places(); ++ox, ++row) {
          for (std::int64_t ky = 0; ky < height.size; ++ky) {
            for (std::int64_t kx = 0; kx < width.size; ++kx) {
              const std::int64_t y = height.position(oy, ky), x = width.position(ox, kx);
              if (!height.inside(y) || !width.inside(x)) continue;
              const std::int64_t pixel = (sample * height.extent + y) * width.extent + x;
              visit(row, static_cast<std::size_t>(ky * width.size + kx), static_cast<std::size_t>(pixel));
            }
          }
        }
      }
    }
  }
};

}  // namespace

void reference_unfold(const ReferenceCall& call) {
  const SlidingWindow windows(call);
  const auto channels = static_cast<std::size_t>(windows.channels);
  std::fill(call[1].begin(), call[1].end(), 0.0);
  windows.each([&](std::size_t row, std::size_t tap, std::size_t pixel) {
    for (std::size_t c = 0; c < channels; ++c) {
      call[1][(row * windows.taps() + tap) * channels + c] = call[0][pixel * channels + c];
    }
  });
}

void reference_fold(const ReferenceCall& call) {
  const SlidingWindow windows(call);
  const auto channels = static_cast<std::size_t>(windows.channels);
  std::fill(call[1].begin(), call[1].end(), 0.0);
  windows.each([&](std::size_t row, std::size_t tap, std::size_t pixel) {
    for (std::size_t c = 0; c < channels; ++c) {
      call[1][pixel * channels + c] += call[0][(row * windows.taps() + tap) * channels + c];
    }
  });
}

void reference_max_pool(const ReferenceCall& call) {
  const SlidingWindow windows(call);
  const auto channels = static_cast<std::size_t>(windows.channels);
  std::fill(call[1].begin(), call[1].end(), -std::numeric_limits<double>::infinity());
  windows.each([&](std::size_t row, std::size_t, std::size_t pixel) {
    for (std::size_t c = 0; c < channels; ++c) {
      double& largest = call[1][row * channels + c];
      largest = std::max(largest, call[0][pixel * channels + c]);
    }
  });
}

// Operands: dy, x, y, dx.
void reference_max_pool_backward(const ReferenceCall& call) {
  const SlidingWindow windows(call);
  const auto channels = static_cast<std::size_t>(windows.channels);
  std::fill(call[3].begin(), call[3].end(), 0.0);
  std::vector<bool> sent(call[0].size());
  windows.each([&](std::size_t row, std::size_t, std::size_t pixel) {
    for (std::size_t c = 0; c < channels; ++c) {
      const std::size_t from = row * channels + c, to = pixel * channels + c;
      if (sent[from] || call[1][to] != call[2][from]) continue;
      sent[from] = true;
      call[3][to] += call[0][from];
    }
  });
}

// Operands: x, w, y.
void reference_depthwise(const ReferenceCall& call) {
  const SlidingWindow windows(call);
  const auto channels = static_cast<std::size_t>(windows.channels);
  std::fill(call[2].begin(), call[2].end(), 0.0);
  windows.each([&](std::size_t row, std::size_t tap, std::size_t pixel) {
    for (std::size_t c = 0; c < channels; ++c) {
      call[2][row * channels + c] += call[0][pixel * channels + c] * call[1][c * windows.taps() + tap];
    }
  });
}

// Operands: dy, x, w, dx, and dw where it is trained.
void reference_depthwise_backward(const ReferenceCall& call) {
  const SlidingWindow windows(call);
  const auto channels = static_cast<std::size_t>(windows.channels);
  std::fill(call[3].begin(), call[3].end(), 0.0);
  windows.each([&](std::size_t row, std::size_t tap, std::size_t pixel) {
    for (std::size_t c = 0; c < channels; ++c) {
      const double dy = call[0][row * channels + c];
      call[3][pixel * channels + c] += dy * call[2][c * windows.taps() + tap];
      if (call.op.outputs.size() > 1) call[4][c * windows.taps() + tap] += dy * call[1][pixel * channels + c];
    }
  });
}

void reference_average_pool(const ReferenceCall& call) {
  const SlidingWindow windows(call);
  const auto channels = static_cast<std::size_t>(windows.channels);
  std::fill(call[1].begin(), call[1].end(), 0.0);
  windows.each([&](std::size_t row, std::size_t, std::size_t pixel) {
    for (std::size_t c = 0; c < channels; ++c) {
      call[1][row * channels + c] += call[0][pixel * channels + c] / static_cast<double>(windows.taps());
    }
  });
}

void reference_average_pool_backward(const ReferenceCall& call) {
  const SlidingWindow windows(call);
  const auto channels = static_cast<std::size_t>(windows.channels);
  std::fill(call[1].begin(), call[1].end(), 0.0);
  windows.each([&](std::size_t row, std::size_t, std::size_t pixel) {
    for (std::size_t c = 0; c < channels; ++c) {
      call[1][pixel * channels + c] += call[0][row * channels + c] / static_cast<double>(windows.taps());
    }
  });
}

namespace {

// Calls visit(row of the larger image, row of the image, part) for the four neighbours of each point, which may be one.
template <typename Visit>
void each_neighbour(const compiler::Attributes& attributes, const Visit& visit) {
  const auto [samples, height, width, channels] = attributes.dims;
  const auto neighbours = [](std::int64_t point, std::int64_t factor, std::int64_t extent) {
    const double place = (static_cast<double>(point) + 0.5) / static_cast<double>(factor) - 0.5;
    const double kept = std::clamp(place, 0.0, static_cast<double>(extent - 1)), first = std::floor(kept);
    const double second = std::min(first + 1, static_cast<double>(extent - 1));
    return std::array<std::pair<std::int64_t, double>, 2>{
        {{static_cast<std::int64_t>(first), 1 - (kept - first)}, {static_cast<std::int64_t>(second), kept - first}}};
  };
  const std::int64_t down = attributes.image_window.stride[0], across = attributes.image_window.stride[1];
  for (std::int64_t row = 0; row < samples * height * down * width * across; ++row) {
    const std::int64_t x = row % (width * across), line = row / (width * across), sample = line / (height * down);
    for (const auto& [above, of_above] : neighbours(line % (height * down), down, height)) {
      for (const auto& [left, of_left] : neighbours(x, across, width)) {
        visit(static_cast<std::size_t>(row), static_cast<std::size_t>((sample * height + above) * width + left),
              of_above * of_left);
      }
    }
  }
}

}  // namespace

void reference_upsample(const ReferenceCall& call) {
  const auto channels = static_cast<std::size_t>(call.op.attributes.dims[3]);
  std::fill(call[1].begin(), call[1].end(), 0.0);
  each_neighbour(call.op.attributes, [&](std::size_t larger, std::size_t pixel, double part) {
    for (std::size_t c = 0; c < channels; ++c) call[1][larger * channels + c] += part * call[0][pixel * channels + c];
  });
}

void reference_upsample_backward(const ReferenceCall& call) {
  const auto channels = static_cast<std::size_t>(call.op.attributes.dims[3]);
  std::fill(call[1].begin(), call[1].end(), 0.0);
  each_neighbour(call.op.attributes, [&](std::size_t larger, std::size_t pixel, double part) {
    for (std::size_t c = 0; c < channels; ++c) call[1][pixel * channels + c] += part * call[0][larger * channels + c];
  });
}

}  // namespace l2l::test

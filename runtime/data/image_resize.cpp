#include "runtime/data/image_resize.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace l2l::runtime {
namespace {

constexpr int kFractionBits = 32 - 8 - 2;  // of weights, which then add up to 1

// The filters of a row's or column's outputs: output i is the sum over inputs from taps[i].first on, by weights.
struct Filters {
  struct Taps {
    int first = 0, count = 0;
  };
  std::vector<Taps> taps;
  std::vector<std::int32_t> weights;  // `most` for each output
  std::size_t most = 0;

  std::span<const std::int32_t> of(std::size_t output) const {
    return std::span(weights).subspan(output * most, static_cast<std::size_t>(taps[output].count));
  }
  int begin() const { return taps.front().first; }  // of the inputs that are read
  int end() const { return taps.back().first + taps.back().count; }
};

// Weights of the inputs around `center`, which add up to 1.
void triangle(double center, double support, Filters::Taps taps, std::int32_t* weights) {
  const auto weight = [&](int i) { return std::max(0.0, 1 - std::abs((i + taps.first - center + 0.5) / support)); };
  double sum = 0;
  for (int i = 0; i < taps.count; ++i) sum += weight(i);
  for (int i = 0; i < taps.count; ++i) {
    weights[i] = static_cast<std::int32_t>(0.5 + weight(i) / sum * (1 << kFractionBits));
  }
}

// Of outputs `from` to `from` + `count` of `outputs` in all.
Filters filters_of(int inputs, std::int64_t outputs, std::int64_t from, int count) {
  const double scale = static_cast<double>(inputs) / static_cast<double>(outputs), support = std::max(1.0, scale);
  Filters filters;
  filters.most = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
  filters.weights.resize(filters.most * static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const double center = (static_cast<double>(from + i) + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(center - support + 0.5));
    const int end = std::min(inputs, static_cast<int>(center + support + 0.5));
    filters.taps.push_back({first, end - first});
    triangle(center, support, filters.taps.back(), filters.weights.data() + static_cast<std::size_t>(i) * filters.most);
  }
  return filters;
}

std::uint8_t rounded(std::int32_t sum) { return static_cast<std::uint8_t>(std::clamp(sum >> kFractionBits, 0, 255)); }

constexpr std::int32_t kHalf = 1 << (kFractionBits - 1);

template <int kChannels>
void resize_row(const std::uint8_t* row, const Filters& filters, std::uint8_t* result) {
  for (std::size_t x = 0; x < filters.taps.size(); ++x) {
    const std::uint8_t* input = row + filters.taps[x].first * kChannels;
    std::int32_t sums[kChannels];
    std::fill_n(sums, kChannels, kHalf);
    for (const std::int32_t weight : filters.of(x)) {
      for (int channel = 0; channel < kChannels; ++channel) sums[channel] += weight * *input++;
    }
    for (int channel = 0; channel < kChannels; ++channel) *result++ = rounded(sums[channel]);
  }
}

// `rows`: rows of `row` bytes from that of filters.begin() on.
void resize_columns(const std::vector<std::uint8_t>& rows, std::size_t row, const Filters& filters,
                    std::vector<std::uint8_t>& pixels) {
  std::vector<std::int32_t> sums(row);
  for (std::size_t y = 0; y < filters.taps.size(); ++y) {
    std::ranges::fill(sums, kHalf);
    const std::uint8_t* input = rows.data() + static_cast<std::size_t>(filters.taps[y].first - filters.begin()) * row;
    for (const std::int32_t weight : filters.of(y)) {
      for (std::size_t i = 0; i < row; ++i) sums[i] += weight * input[i];
      input += row;
    }
    std::ranges::transform(sums, pixels.begin() + static_cast<std::ptrdiff_t>(y * row), rounded);
  }
}

}  // namespace

void resize_image(const ImageView& image, const Scaling& scaling, std::vector<std::uint8_t>& rows,
                  std::vector<std::uint8_t>& pixels) {
  const Filters across = filters_of(image.shape.width, scaling.width, scaling.left, scaling.part_width);
  const Filters down = filters_of(image.shape.height, scaling.height, scaling.top, scaling.part_height);
  const ImageShape result{scaling.part_height, scaling.part_width, image.shape.channels};
  const auto read = static_cast<std::size_t>(down.end() - down.begin());
  rows.resize(read * result.row());
  for (std::size_t y = 0; y < read; ++y) {
    const std::uint8_t* const row = image.pixels + (static_cast<std::size_t>(down.begin()) + y) * image.stride;
    std::uint8_t* const place = rows.data() + y * result.row();
    image.shape.channels == 3 ? resize_row<3>(row, across, place) : resize_row<1>(row, across, place);
  }
  pixels.resize(result.bytes());
  resize_columns(rows, result.row(), down, pixels);
}

}  // namespace l2l::runtime

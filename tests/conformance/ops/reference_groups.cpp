// References of group_norm and its gradient, of softmax and its gradient, and of lookup.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/conformance/ops/reference.h"

namespace l2l::test {
namespace {

// The elements of every group of channels of every sample, group after group.
struct Groups {
  std::size_t samples, pixels, channels, groups;

  explicit Groups(const compiler::Attributes& attributes)
      : samples(static_cast<std::size_t>(attributes.dims[0])),
        pixels(static_cast<std::size_t>(attributes.dims[1] * attributes.dims[2])),
        channels(static_cast<std::size_t>(attributes.dims[3])),
        groups(static_cast<std::size_t>(attributes.groups)) {}

  // visit(group, elements): `group` as mean has it, samples outermost.
  template <typename Visit>
  void each(const Visit& visit) const {
    const std::size_t width = channels / groups;
    for (std::size_t sample = 0; sample < samples; ++sample) {
      for (std::size_t group = 0; group < groups; ++group) {
        std::vector<std::size_t> elements;
        for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
          for (std::size_t c = group * width; c < (group + 1) * width; ++c) {
            elements.push_back((sample * pixels + pixel) * channels + c);
          }
        }
        visit(sample * groups + group, elements);
      }
    }
  }
};

}  // namespace

// Operands: x, gain, bias, y, mean, inverse_deviation.
void reference_group_norm(const ReferenceCall& call) {
  const Groups groups(call.op.attributes);
  groups.each([&](std::size_t group, const std::vector<std::size_t>& elements) {
    const auto n = static_cast<double>(elements.size());
    double mean = 0, variance = 0;
    for (const std::size_t i : elements) mean += call[0][i] / n;
    for (const std::size_t i : elements) variance += (call[0][i] - mean) * (call[0][i] - mean) / n;
    const double inverse = 1 / std::sqrt(variance + static_cast<double>(call.op.attributes.epsilon));
    for (const std::size_t i : elements) {
      const std::size_t c = i % groups.channels;
      call[3][i] = (call[0][i] - mean) * inverse * call[1][c] + call[2][c];
    }
    call[4][group] = mean;
    call[5][group] = inverse;
  });
}

// Operands: dy, x, gain, mean, inverse_deviation, dx, dgain, dbias.
void reference_group_norm_backward(const ReferenceCall& call) {
  const Groups groups(call.op.attributes);
  groups.each([&](std::size_t group, const std::vector<std::size_t>& elements) {
    const auto n = static_cast<double>(elements.size());
    const double mean = call[3][group], inverse = call[4][group];
    double sum = 0, projection = 0;
    for (const std::size_t i : elements) {
      const std::size_t c = i % groups.channels;
      const double normalized = (call[1][i] - mean) * inverse;
      sum += call[0][i] * call[2][c] / n;
      projection += call[0][i] * call[2][c] * normalized / n;
      call[6][c] += call[0][i] * normalized;
      call[7][c] += call[0][i];
    }
    for (const std::size_t i : elements) {
      const double normalized = (call[1][i] - mean) * inverse;
      call[5][i] = (call[0][i] * call[2][i % groups.channels] - sum - normalized * projection) * inverse;
    }
  });
}

void reference_softmax(const ReferenceCall& call) {
  const auto columns = static_cast<std::ptrdiff_t>(call.shape(0)[1]);
  for (auto x = call[0].begin(), y = call[1].begin(); x != call[0].end(); x += columns, y += columns) {
    const double highest = *std::max_element(x, x + columns);
    double sum = 0;
    for (std::ptrdiff_t c = 0; c < columns; ++c) sum += y[c] = std::exp(x[c] - highest);
    for (std::ptrdiff_t c = 0; c < columns; ++c) y[c] /= sum;
  }
}

// Operands: dy, y, dx.
void reference_softmax_backward(const ReferenceCall& call) {
  const auto columns = static_cast<std::size_t>(call.shape(0)[1]);
  for (std::size_t row = 0; row < call[0].size(); row += columns) {
    double product = 0;
    for (std::size_t i = row; i < row + columns; ++i) product += call[0][i] * call[1][i];
    for (std::size_t i = row; i < row + columns; ++i) call[2][i] = call[1][i] * (call[0][i] - product);
  }
}

// Operands: indices, table, y.
void reference_lookup(const ReferenceCall& call) {
  const auto columns = static_cast<std::size_t>(call.shape(1)[1]);
  for (std::size_t i = 0; i < call[2].size(); ++i) {
    call[2][i] = call[1][static_cast<std::size_t>(call[0][i / columns]) * columns + i % columns];
  }
}

}  // namespace l2l::test

// References of group_norm and its gradient, of batch_norm, of softmax and its gradient, of lookup, and of
// gather and its gradient.
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

// Operands: x, gain, bias, running_mean, running_variance, y, mean, inverse_deviation.
void reference_batch_norm(const ReferenceCall& call) {
  const std::size_t channels = call[1].size(), rows = call[0].size() / channels;
  for (std::size_t c = 0; c < channels; ++c) {
    double mean = 0, variance = 0;
    for (std::size_t row = 0; row < rows; ++row) mean += call[0][row * channels + c];
    mean /= static_cast<double>(rows);
    for (std::size_t row = 0; row < rows; ++row) variance += std::pow(call[0][row * channels + c] - mean, 2);
    variance /= static_cast<double>(rows);
    if (!call.parameters.training) {
      mean = call[3][c];
      variance = call[4][c];
    }
    const double inverse = 1 / std::sqrt(variance + static_cast<double>(call.op.attributes.epsilon));
    for (std::size_t row = 0; row < rows; ++row) {
      call[5][row * channels + c] = (call[0][row * channels + c] - mean) * inverse * call[1][c] + call[2][c];
    }
    call[6][c] = mean;
    call[7][c] = inverse;
  }
}

// Operands: mean, inverse_deviation, running_mean, running_variance.
void reference_batch_statistics(const ReferenceCall& call) {
  const double rows = static_cast<double>(call.op.attributes.dims[1] * call.op.attributes.dims[2]);
  for (std::size_t c = 0; c < call[0].size(); ++c) {
    call[2][c] += call[0][c];
    if (call.op.outputs.size() < 2) continue;
    const double variance = 1 / (call[1][c] * call[1][c]) - static_cast<double>(call.op.attributes.epsilon);
    call[3][c] += variance * rows / (rows - 1);
  }
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
    const double row = call[0][i / columns] - static_cast<double>(call.op.attributes.first);
    const bool has = row >= 0 && row < static_cast<double>(call.shape(1)[0]);  // else another device has it
    call[2][i] = has ? call[1][static_cast<std::size_t>(row) * columns + i % columns] : 0;
  }
}

// The row of x that index `i` names.
static std::size_t gathered_row(const ReferenceCall& call, const Tensor& indices, std::size_t i) {
  const auto samples = static_cast<std::size_t>(call.op.attributes.dims[0]);
  const auto rows = static_cast<std::size_t>(call.op.attributes.dims[1]);
  return i / (indices.size() / samples) * rows + static_cast<std::size_t>(indices[i]);
}

// Operands: x, indices, y.
void reference_gather(const ReferenceCall& call) {
  const auto columns = static_cast<std::size_t>(call.shape(0)[1]);
  for (std::size_t i = 0; i < call[2].size(); ++i) {
    call[2][i] = call[0][gathered_row(call, call[1], i / columns) * columns + i % columns];
  }
}

// Operands: indices, dy, dx.
void reference_gather_backward(const ReferenceCall& call) {
  const auto columns = static_cast<std::size_t>(call.shape(1)[1]);
  std::fill(call[2].begin(), call[2].end(), 0.0);
  for (std::size_t i = 0; i < call[1].size(); ++i) {
    call[2][gathered_row(call, call[0], i / columns) * columns + i % columns] += call[1][i];
  }
}

}  // namespace l2l::test

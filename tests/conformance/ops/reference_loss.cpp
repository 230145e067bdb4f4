#include <algorithm>
#include <cmath>

#include "core/choice_target.h"
#include "tests/conformance/ops/reference.h"

namespace l2l::test {
namespace {

struct Loss {
  std::size_t rows, hidden, vocabulary;
  bool bias;  // input 3
  explicit Loss(const ReferenceCall& call)
      : rows(static_cast<std::size_t>(call.shape(0)[0])),
        hidden(static_cast<std::size_t>(call.shape(0)[1])),
        vocabulary(static_cast<std::size_t>(call.shape(1)[0])),
        bias(call.op.inputs.size() > 3) {}

  // Logits of one row become probabilities; returns the loss of `target`. `slopes`: those of the cap, if asked for.
  double softmax(const ReferenceCall& call, std::size_t row, std::size_t target, Tensor& values,
                 Tensor* slopes = nullptr) const {
    values.assign(vocabulary, 0);
    for (std::size_t v = 0; v < vocabulary; ++v) {
      if (bias) values[v] = call[3][v];
      for (std::size_t d = 0; d < hidden; ++d) values[v] += call[0][row * hidden + d] * call[1][v * hidden + d];
      values[v] = capped_logit(call, values[v]);
    }
    if (slopes != nullptr) {
      slopes->clear();
      for (const double value : values) slopes->push_back(logit_slope(call, value));
    }
    const double highest = *std::max_element(values.begin(), values.end()), chosen = values[target];
    double sum = 0;
    for (double& value : values) sum += value = std::exp(value - highest);
    for (double& value : values) value /= sum;
    return highest + std::log(sum) - chosen;
  }
};

}  // namespace

double capped_logit(const ReferenceCall& call, double logit) {
  const double cap = static_cast<double>(call.op.attributes.softcap);
  return cap > 0 ? cap * std::tanh(logit / cap) : logit;
}

double logit_slope(const ReferenceCall& call, double capped) {
  const double cap = static_cast<double>(call.op.attributes.softcap), share = cap > 0 ? capped / cap : 0;
  return 1 - share * share;
}

void reference_linear_cross_entropy(const ReferenceCall& call) {
  const Loss loss(call);
  Tensor values;
  double& sum = call[call.op.inputs.size()][0] = 0;
  for (std::size_t row = 0; row < loss.rows; ++row) {
    if (call[2][row] < 0) continue;
    sum += loss.softmax(call, row, static_cast<std::size_t>(call[2][row]), values);
  }
}

// Operands: x, table, targets, (bias), loss, dx, dtable, (dbias).
void reference_linear_cross_entropy_backward(const ReferenceCall& call) {
  const Loss loss(call);
  const std::size_t outputs = call.op.inputs.size();
  Tensor values, slopes, &dx = call[outputs + 1], &dtable = call[outputs + 2];
  call[outputs][0] = 0;
  std::fill(dx.begin(), dx.end(), 0.0);
  for (std::size_t row = 0; row < loss.rows; ++row) {
    if (call[2][row] < 0) continue;
    const auto target = static_cast<std::size_t>(call[2][row]);
    call[outputs][0] += loss.softmax(call, row, target, values, &slopes);
    for (std::size_t v = 0; v < loss.vocabulary; ++v) {
      const double exact = (values[v] - (v == target)) * static_cast<double>(call.parameters.loss_scale) * slopes[v];
      const double gradient = call.round ? round_to(call.dtype(0), exact) : exact;
      if (loss.bias) call[outputs + 3][v] += gradient;
      for (std::size_t d = 0; d < loss.hidden; ++d) {
        dx[row * loss.hidden + d] += gradient * call[1][v * loss.hidden + d];
        dtable[v * loss.hidden + d] += gradient * call[0][row * loss.hidden + d];
      }
    }
  }
}

// Operands: y, targets, loss, (dy).
void reference_squared_error(const ReferenceCall& call) {
  const bool gradient = call.op.outputs.size() > 1;
  call[2][0] = 0;
  for (std::size_t row = 0; row < call[0].size(); ++row) {
    const double error = std::isnan(call[1][row]) ? 0 : call[0][row] - call[1][row];
    call[2][0] += error * error;
    if (gradient) call[3][row] = 2 * error * static_cast<double>(call.parameters.loss_scale);
  }
}

// Operands: scores, targets, loss, (dscores).
void reference_choice_cross_entropy(const ReferenceCall& call) {
  const bool gradient = call.op.outputs.size() > 1;
  const Tensor &scores = call[0], &targets = call[1];
  call[2][0] = 0;
  if (gradient) std::fill(call[3].begin(), call[3].end(), 0.0);
  for (std::size_t first = 0; first < scores.size(); ++first) {
    if (targets[first] < 0) continue;
    const auto target = static_cast<std::int32_t>(targets[first]);
    std::vector<std::size_t> rows = {first};
    for (std::size_t row = first + 1; rows.size() < static_cast<std::size_t>(choices_of(target)); ++row) {
      if (targets[row] == kFurtherChoice) rows.push_back(row);
    }
    double sum = 0;
    for (const std::size_t row : rows) sum += std::exp(scores[row]);
    const std::size_t right = rows[static_cast<std::size_t>(right_choice(target))];
    call[2][0] += std::log(sum) - scores[right];
    for (const std::size_t row : rows) {
      const double slope = std::exp(scores[row]) / sum - (row == right ? 1 : 0);
      if (gradient) call[3][row] = slope * static_cast<double>(call.parameters.loss_scale);
    }
  }
}

namespace {

// The logarithm of the sum of e^logit over the row that begins at `first`.
double log_sum_of_row(const Tensor& logits, std::size_t first, std::size_t columns) {
  const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = begin + static_cast<std::ptrdiff_t>(columns);
  const double highest = *std::max_element(begin, end);
  double sum = 0;
  for (auto logit = begin; logit != end; ++logit) sum += std::exp(*logit - highest);
  return highest + std::log(sum);
}

}  // namespace

// Operands: logits, targets, y.
void reference_row_cross_entropy(const ReferenceCall& call) {
  const auto columns = static_cast<std::size_t>(call.shape(0)[1]);
  for (std::size_t row = 0; row < call[1].size(); ++row) {
    call[2][row] = 0;
    if (call[1][row] < 0) continue;
    const double chosen = call[0][row * columns + static_cast<std::size_t>(call[1][row])];
    call[2][row] = log_sum_of_row(call[0], row * columns, columns) - chosen;
  }
}

// Operands: dy, logits, targets, dlogits.
void reference_row_cross_entropy_backward(const ReferenceCall& call) {
  const auto columns = static_cast<std::size_t>(call.shape(1)[1]);
  std::fill(call[3].begin(), call[3].end(), 0.0);
  for (std::size_t row = 0; row < call[2].size(); ++row) {
    if (call[2][row] < 0) continue;
    const double log_sum = log_sum_of_row(call[1], row * columns, columns);
    for (std::size_t c = 0; c < columns; ++c) {
      const double probability = std::exp(call[1][row * columns + c] - log_sum);
      const double slope = probability - (c == static_cast<std::size_t>(call[2][row]) ? 1 : 0);
      call[3][row * columns + c] = call[0][row] * slope;
    }
  }
}

// Operands: parts, counts, loss, (dparts).
void reference_sample_loss(const ReferenceCall& call) {
  const bool gradient = call.op.outputs.size() > 1;
  call[2][0] = 0;
  for (std::size_t sample = 0; sample < call[0].size(); ++sample) {
    const bool counted = call[1][sample] != 0;
    if (counted) call[2][0] += call[0][sample];
    if (gradient) call[3][sample] = counted ? static_cast<double>(call.parameters.loss_scale) : 0;
  }
}

}  // namespace l2l::test

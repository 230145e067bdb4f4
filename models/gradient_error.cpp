#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "core/checked.h"
#include "l2l/errors.h"
#include "l2l/testing.h"

namespace l2l {
namespace {

using Numbers = std::vector<float>;

constexpr float kUnwritten = std::numeric_limits<float>::quiet_NaN();

// An op with operands of its own.
class Probe {
 public:
  Probe(const CustomOp& op, std::int64_t rows, std::int64_t columns, std::int64_t parameters, std::uint64_t seed)
      : op_(op),
        rows_(rows),
        columns_(columns),
        result_columns_(op.result_columns ? op.result_columns(columns) : columns),
        random_(seed),
        x_(normal(rows * columns)),
        parameters_(normal(parameters)),
        dy_(normal(rows * result_columns_)) {}

  double error() {
    const auto [dx, dparameters] = gradients();
    const double of_parameters = parameters_.empty() ? 0 : error(false, dparameters);
    return std::max(error(true, dx), of_parameters);
  }

 private:
  double error(bool of_x, const Numbers& gradient) {
    constexpr int kDirections = 8;
    double largest = 0, difference = 0;
    for (int i = 0; i < kDirections; ++i) {
      const Numbers direction = normal(static_cast<std::int64_t>(gradient.size()));
      const double given = product(gradient, direction), measured = derivative(of_x, direction);
      if (!std::isfinite(given) || !std::isfinite(measured)) return std::numeric_limits<double>::infinity();
      difference = std::max(difference, std::abs(given - measured));
      largest = std::max(largest, std::abs(measured));
    }
    return difference / std::max(largest, 1e-30);
  }

  Numbers normal(std::int64_t count) {
    std::normal_distribution<float> distribution;
    Numbers numbers(static_cast<std::size_t>(count));
    for (float& number : numbers) number = distribution(random_);
    return numbers;
  }

  static double product(const Numbers& a, const Numbers& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
    return sum;
  }

  // The rows in two calls, as a run may cut them: call(first row, rows).
  void in_parts(const auto& call) const {
    const std::int64_t first = rows_ / 2;
    if (first > 0) call(0, first);
    call(first, rows_ - first);
  }
  // Rows of a matrix with as many columns.
  static auto rows_of(auto& matrix, std::int64_t first, std::int64_t rows, std::int64_t columns) {
    return std::span(matrix).subspan(static_cast<std::size_t>(first * columns),
                                     static_cast<std::size_t>(rows * columns));
  }

  // What is to be written is NaN before.
  Numbers result(const Numbers& x, const Numbers& parameters) const {
    Numbers y(dy_.size(), kUnwritten);
    in_parts([&](std::int64_t first, std::int64_t rows) {
      op_.forward({rows, columns_, result_columns_, rows_of(x, first, rows, columns_), parameters,
                   rows_of(y, first, rows, result_columns_), first});
    });
    return y;
  }

  // What is to be added to is not 0 before.
  std::pair<Numbers, Numbers> gradients() {
    const Numbers y = result(x_, parameters_), before = normal(static_cast<std::int64_t>(parameters_.size()));
    Numbers dx(x_.size(), kUnwritten), dparameters = before;
    in_parts([&](std::int64_t first, std::int64_t rows) {
      op_.backward({rows, columns_, result_columns_, rows_of(dy_, first, rows, result_columns_),
                    rows_of(x_, first, rows, columns_), rows_of(y, first, rows, result_columns_), parameters_,
                    rows_of(dx, first, rows, columns_), dparameters, first});
    });
    for (std::size_t i = 0; i < before.size(); ++i) dparameters[i] -= before[i];
    return {dx, dparameters};
  }

  // Of dy y, in fourth order: the error of the quotient is below the rounding of y.
  double derivative(bool of_x, const Numbers& direction) const {
    constexpr float kStep = 0.02f;
    const auto at = [&](float steps) {
      Numbers moved = of_x ? x_ : parameters_;
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += steps * kStep * direction[i];
      return product(dy_, of_x ? result(moved, parameters_) : result(x_, moved));
    };
    return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12.0 * kStep);
  }

  const CustomOp& op_;
  const std::int64_t rows_, columns_, result_columns_;
  std::mt19937_64 random_;
  const Numbers x_, parameters_, dy_;
};

}  // namespace

namespace {

void check_numbers(std::int64_t rows, std::int64_t columns) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 31;
  const auto all =
      checked_multiply(static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns), "gradient_error");
  if (all > kMost) throw BadInput("gradient_error: " + std::to_string(all) + " numbers; they are 2^31 at most");
}

}  // namespace

double gradient_error(const CustomOp& op, std::int64_t rows, std::int64_t columns, std::int64_t parameters,
                      std::uint64_t seed) {
  if (!op.forward || !op.backward) throw BadInput("custom op \"" + op.name + "\": forward or backward is missing");
  if (rows < 1 || columns < 1 || parameters < 0) throw BadInput("gradient_error: needs a row and a column");
  check_numbers(rows, columns);
  check_numbers(1, parameters);
  if (op.result_columns) {
    const std::int64_t results = op.result_columns(columns);
    if (results < 1) throw BadInput("custom op \"" + op.name + "\": makes no columns of " + std::to_string(columns));
    check_numbers(rows, results);
  }
  return Probe(op, rows, columns, parameters, seed).error();
}

}  // namespace l2l

#include "compiler/remat/integer_program.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace l2l::compiler::remat {
namespace {

std::int64_t floor_divide(std::int64_t n, std::int64_t d) { return n / d - (n % d != 0 && (n < 0) != (d < 0)); }
std::int64_t ceil_divide(std::int64_t n, std::int64_t d) { return n / d + (n % d != 0 && (n < 0) == (d < 0)); }

// The corner of two nearly parallel lines must be off by less than 1, for which double is not enough.
using Real = long double;

struct Line {
  Real a, b, most;  // a x + b y <= most

  bool holds(Real x, Real y) const {
    constexpr Real kNear = 1e-14L;
    return a * x + b * y <= most + kNear * (std::abs(a * x) + std::abs(b * y) + std::abs(most) + 1);
  }
};

std::array<Line, 7> lines_of(const IntegerProgram& program) {
  const auto real = [](std::int64_t n) { return static_cast<Real>(n); };
  return {{{-1, 0, 0},
           {0, -1, 0},
           {1, 0, real(program.most_a)},
           {0, 1, real(program.most_b)},
           {1, 1, real(program.most_both)},
           {real(program.device.a), real(program.device.b), real(program.device_left)},
           {real(program.host.a), real(program.host.b), real(program.host_left)}}};
}

// `a` at the optimal corner of the region without integrality; none if the region is empty.
std::optional<Real> best_corner(const IntegerProgram& program) {
  const std::array<Line, 7> lines = lines_of(program);
  std::optional<Real> best;
  Real least = std::numeric_limits<Real>::infinity();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Real det = lines[i].a * lines[j].b - lines[j].a * lines[i].b;
      if (det == 0) continue;
      const Real x = (lines[i].most * lines[j].b - lines[j].most * lines[i].b) / det;
      const Real y = (lines[i].a * lines[j].most - lines[j].a * lines[i].most) / det;
      const Real time = static_cast<Real>(program.time.a) * x + static_cast<Real>(program.time.b) * y;
      if (time >= least) continue;
      if (!std::all_of(lines.begin(), lines.end(), [&](const Line& line) { return line.holds(x, y); })) continue;
      least = time;
      best = x;
    }
  }
  return best;
}

// The feasible range of b for one a, with and without integrality.
class Column {
 public:
  Column(const IntegerProgram& program, std::int64_t a)
      : program_(program),
        a_(a),
        high_(std::min(program.most_b, program.most_both - a)),
        real_high_(static_cast<double>(high_)) {
    clip(program.device.b, program.device_left - program.device.a * a);
    clip(program.host.b, program.host_left - program.host.a * a);
  }

  // Whether the column has a feasible point, integral or not, with a time less than `below`. True in doubt.
  bool may_hold(std::int64_t below) const {
    constexpr double kDoubt = 1e-6;
    if (real_low_ > real_high_ + kDoubt) return false;
    const double b = program_.time.b < 0 ? real_high_ : real_low_;
    const double time = static_cast<double>(program_.time.a * a_) + static_cast<double>(program_.time.b) * b;
    return time < static_cast<double>(below) - 0.5;
  }
  std::optional<IntegerPoint> best() const {
    if (low_ > high_) return std::nullopt;
    const std::int64_t b = program_.time.b < 0 ? high_ : low_;
    return IntegerPoint{program_.time.at(a_, b), a_, b};
  }

 private:
  // factor * b <= left
  void clip(std::int64_t factor, std::int64_t left) {
    if (factor == 0) {
      if (left < 0) high_ = -1, real_high_ = -1;
      return;
    }
    const double real = static_cast<double>(left) / static_cast<double>(factor);
    if (factor > 0) {
      high_ = std::min(high_, floor_divide(left, factor));
      real_high_ = std::min(real_high_, real);
    } else {
      low_ = std::max(low_, ceil_divide(left, factor));
      real_low_ = std::max(real_low_, real);
    }
  }

  const IntegerProgram& program_;
  const std::int64_t a_;
  std::int64_t low_ = 0, high_;
  double real_low_ = 0, real_high_;
};

}  // namespace

// Searches from the corner outwards. The least time of a column is convex in a, so that each direction ends at the
// first column that cannot improve.
std::optional<IntegerPoint> solve(const IntegerProgram& program, std::int64_t below) {
  const std::optional<Real> corner = best_corner(program);
  if (!corner) return std::nullopt;
  const auto middle = static_cast<std::int64_t>(std::floor(*corner));
  std::optional<IntegerPoint> best;
  const auto look = [&](std::int64_t a) {
    const Column column(program, a);
    if (!column.may_hold(below)) return false;
    if (const auto point = column.best(); point && point->time < below) {
      best = point;
      below = point->time;
    }
    return true;
  };
  const std::int64_t last = std::min(program.most_a, program.most_both);
  constexpr std::int64_t kNear = 2;  // the corner may be off by rounding
  for (std::int64_t a = std::min(last, middle + 1); a >= 0 && (look(a) || a >= middle - kNear); --a) continue;
  for (std::int64_t a = std::max<std::int64_t>(0, middle + 2); a <= last && (look(a) || a <= middle + kNear + 1); ++a) {
    continue;
  }
  return best;
}

}  // namespace l2l::compiler::remat

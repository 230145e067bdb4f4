#include "compiler/remat/face.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace l2l::compiler::remat {
namespace {

std::int64_t floor_divide(std::int64_t n, std::int64_t d) { return n / d - (n % d != 0 && (n < 0) != (d < 0)); }
std::int64_t ceil_divide(std::int64_t n, std::int64_t d) { return n / d + (n % d != 0 && (n < 0) == (d < 0)); }

// Doubles would not do: the corner of two lines that are nearly parallel must be off by less than a layer.
using Real = long double;

struct Line {
  Real a, b, most;  // a x + b y <= most

  bool holds(Real x, Real y) const {
    constexpr Real kNear = 1e-14L;
    return a * x + b * y <= most + kNear * (std::abs(a * x) + std::abs(b * y) + std::abs(most) + 1);
  }
};

std::array<Line, 7> lines_of(const Face& face) {
  const auto real = [](std::int64_t n) { return static_cast<Real>(n); };
  return {{{-1, 0, 0},
           {0, -1, 0},
           {1, 0, real(face.most_a)},
           {0, 1, real(face.most_b)},
           {1, 1, real(face.most_both)},
           {real(face.device.a), real(face.device.b), real(face.device_left)},
           {real(face.host.a), real(face.host.b), real(face.host_left)}}};
}

// `a` of the best corner of the region; none where it is empty.
std::optional<Real> best_corner(const Face& face) {
  const std::array<Line, 7> lines = lines_of(face);
  std::optional<Real> best;
  Real least = std::numeric_limits<Real>::infinity();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Real det = lines[i].a * lines[j].b - lines[j].a * lines[i].b;
      if (det == 0) continue;
      const Real x = (lines[i].most * lines[j].b - lines[j].most * lines[i].b) / det;
      const Real y = (lines[i].a * lines[j].most - lines[j].a * lines[i].most) / det;
      const Real time = static_cast<Real>(face.time.a) * x + static_cast<Real>(face.time.b) * y;
      if (time >= least) continue;
      if (!std::all_of(lines.begin(), lines.end(), [&](const Line& line) { return line.holds(x, y); })) continue;
      least = time;
      best = x;
    }
  }
  return best;
}

// What b may be beside one a, in whole numbers and without.
class Column {
 public:
  Column(const Face& face, std::int64_t a)
      : face_(face), a_(a), high_(std::min(face.most_b, face.most_both - a)), real_high_(static_cast<double>(high_)) {
    clip(face.device.b, face.device_left - face.device.a * a);
    clip(face.host.b, face.host_left - face.host.a * a);
  }

  // Whether the region has a point here that takes less than `below`, whole numbers or not. May say yes in doubt.
  bool may_hold(std::int64_t below) const {
    constexpr double kDoubt = 1e-6;
    if (real_low_ > real_high_ + kDoubt) return false;
    const double b = face_.time.b < 0 ? real_high_ : real_low_;
    const double time = static_cast<double>(face_.time.a * a_) + static_cast<double>(face_.time.b) * b;
    return time < static_cast<double>(below) - 0.5;
  }
  std::optional<FacePoint> best() const {
    if (low_ > high_) return std::nullopt;
    const std::int64_t b = face_.time.b < 0 ? high_ : low_;
    return FacePoint{face_.time.at(a_, b), a_, b};
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

  const Face& face_;
  const std::int64_t a_;
  std::int64_t low_ = 0, high_;
  double real_low_ = 0, real_high_;
};

}  // namespace

// The least time of a column is convex in a, so that columns worth a look lie side by side.
std::optional<FacePoint> best_point(const Face& face, std::int64_t below) {
  const std::optional<Real> corner = best_corner(face);
  if (!corner) return std::nullopt;
  const auto middle = static_cast<std::int64_t>(std::floor(*corner));
  std::optional<FacePoint> best;
  const auto look = [&](std::int64_t a) {
    const Column column(face, a);
    if (!column.may_hold(below)) return false;
    if (const auto point = column.best(); point && point->time < below) {
      best = point;
      below = point->time;
    }
    return true;
  };
  const std::int64_t last = std::min(face.most_a, face.most_both);
  constexpr std::int64_t kNear = 2;  // the corner may be off by rounding
  for (std::int64_t a = std::min(last, middle + 1); a >= 0 && (look(a) || a >= middle - kNear); --a) continue;
  for (std::int64_t a = std::max<std::int64_t>(0, middle + 2); a <= last && (look(a) || a <= middle + kNear + 1); ++a) {
    continue;
  }
  return best;
}

}  // namespace l2l::compiler::remat

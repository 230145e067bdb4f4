// By duality: in the quadrant of multipliers, each type has cells in which one of its options is cheapest. A facet of
// the hull is a point where three cells of a type meet, where borders of two types cross, or where a border ends at an
// axis.
#include "compiler/remat/hull_facets.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace l2l::compiler::remat {
namespace {

struct Scaled {
  double time, device, host;
  double at(double x, double y) const { return time + x * device + y * host; }
};

// Scales the largest of each kind to 1. Times are perturbed by different amounts, so that no three borders meet in one
// point by accident; that may make a facet worse by a billionth, never invalid.
struct Scale {
  double time = 1, device = 1, host = 1;

  explicit Scale(const Loads& types) {
    for (const auto& options : types) {
      for (const Load& load : options) {
        time = std::max(time, static_cast<double>(load.time));
        device = std::max(device, static_cast<double>(load.device));
        host = std::max(host, static_cast<double>(load.host));
      }
    }
  }
  std::vector<std::vector<Scaled>> apply(const Loads& types) const {
    constexpr double kGoldenRatio = 0.6180339887498949, kShift = 1e-9;
    std::vector<std::vector<Scaled>> scaled;
    double turn = 0;
    for (const auto& options : types) {
      scaled.emplace_back();
      for (const Load& load : options) {
        turn = std::fmod(turn + kGoldenRatio, 1.0);
        scaled.back().push_back({static_cast<double>(load.time) / time + kShift * turn,
                                 static_cast<double>(load.device) / device, static_cast<double>(load.host) / host});
      }
    }
    return scaled;
  }
  Multipliers multipliers(double x, double y) const { return {x * time / device, y * time / host}; }
};

// The border between the cells of options i and j: the points x(s), y(s) for s in [low, high]. At an end, `at_low` or
// `at_high` is the option whose cell begins there; kNone at an axis, or if the border has no end.
struct Border {
  static constexpr OptionIndex kNone = ~OptionIndex{0};

  std::size_t type;
  OptionIndex i, j;
  double x0, y0, dx, dy;
  double low = -std::numeric_limits<double>::infinity(), high = -low;
  OptionIndex at_low = kNone, at_high = kNone;

  double x(double s) const { return std::max(0.0, x0 + s * dx); }
  double y(double s) const { return std::max(0.0, y0 + s * dy); }
  // Keeps the part where offset + slope * s <= 0.
  void clip(double offset, double slope, OptionIndex by) {
    if (slope == 0) {
      if (offset > 0) high = -std::numeric_limits<double>::infinity();
    } else if (const double s = -offset / slope; slope > 0 && s < high) {
      high = s;
      at_high = by;
    } else if (slope < 0 && s > low) {
      low = s;
      at_low = by;
    }
  }
};

std::vector<Border> borders_of(std::size_t type, const std::vector<Scaled>& options) {
  std::vector<Border> borders;
  for (OptionIndex i = 0; i < options.size(); ++i) {
    for (OptionIndex j = i + 1; j < options.size(); ++j) {
      const double a = options[i].device - options[j].device, b = options[i].host - options[j].host;
      const double c = options[j].time - options[i].time, square = a * a + b * b;
      if (square == 0) continue;
      Border border{type, i, j, c * a / square, c * b / square, -b, a};
      border.clip(-border.x0, -border.dx, Border::kNone);
      border.clip(-border.y0, -border.dy, Border::kNone);
      for (OptionIndex k = 0; k < options.size(); ++k) {
        if (k == i || k == j) continue;
        const double more_device = options[i].device - options[k].device;
        const double more_host = options[i].host - options[k].host;
        border.clip(options[i].at(border.x0, border.y0) - options[k].at(border.x0, border.y0),
                    more_device * border.dx + more_host * border.dy, k);
      }
      if (border.low < border.high) borders.push_back(border);
    }
  }
  return borders;
}

class Collector {
 public:
  explicit Collector(const Loads& types) : scale_(types), types_(scale_.apply(types)) {}

  std::vector<Facet> collect() {
    std::vector<Border> borders;
    for (std::size_t t = 0; t < types_.size(); ++t) {
      for (const Border& border : borders_of(t, types_[t])) borders.push_back(border);
    }
    add(0, 0, {});
    for (const Border& border : borders) {
      add_end(border, border.low, border.at_low);
      add_end(border, border.high, border.at_high);
    }
    for (const Border& a : borders) {
      for (const Border& b : borders) {
        if (a.type < b.type) add_crossing(a, b);
      }
    }
    std::vector<Facet> facets;
    for (const auto& [used, multipliers] : found_) facets.push_back(facet_of(used, multipliers));
    return facets;
  }

 private:
  using Used = std::vector<TypeOption>;  // ascending; every type at least once

  void add_end(const Border& border, double s, OptionIndex third) {
    if (std::isinf(s)) return;
    std::vector<TypeOption> used{{border.type, border.i}, {border.type, border.j}};
    if (third != Border::kNone) used.push_back({border.type, third});
    add(border.x(s), border.y(s), used);
  }

  void add_crossing(const Border& a, const Border& b) {
    const double det = b.dx * a.dy - a.dx * b.dy;
    if (det == 0) return;
    const double x = b.x0 - a.x0, y = b.y0 - a.y0;
    const double s = (b.dx * y - b.dy * x) / det, t = (a.dx * y - a.dy * x) / det;
    if (s < a.low || s > a.high || t < b.low || t > b.high) return;
    add(a.x(s), a.y(s), {{a.type, a.i}, {a.type, a.j}, {b.type, b.i}, {b.type, b.j}});
  }

  // Adds the facet of point (x, y). Types that are not in `used` take their cheapest option there.
  void add(double x, double y, Used used) {
    for (std::size_t t = 0; t < types_.size(); ++t) {
      const auto of_type = [&](const TypeOption& move) { return move.type == t; };
      if (std::any_of(used.begin(), used.end(), of_type)) continue;
      const auto cheaper = [&](const Scaled& a, const Scaled& b) { return a.at(x, y) < b.at(x, y); };
      const auto least = std::min_element(types_[t].begin(), types_[t].end(), cheaper);
      used.push_back({t, static_cast<OptionIndex>(least - types_[t].begin())});
    }
    std::sort(used.begin(), used.end());
    found_[std::move(used)].push_back(scale_.multipliers(x, y));
  }

  static Facet facet_of(const Used& used, const std::vector<Multipliers>& multipliers) {
    Facet facet{{}, {}, multipliers};
    for (const TypeOption& move : used) {
      if (move.type == facet.base.size()) {
        facet.base.push_back(move.option);
      } else {
        facet.others.push_back(move);
      }
    }
    return facet;
  }

  const Scale scale_;
  const std::vector<std::vector<Scaled>> types_;
  std::map<Used, std::vector<Multipliers>> found_;
};

}  // namespace

std::vector<Facet> find_facets(const Loads& types) { return Collector(types).collect(); }

}  // namespace l2l::compiler::remat

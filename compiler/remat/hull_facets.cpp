// By duality: in the quadrant of multipliers, each type has cells in which one of its options is cheapest. A facet of
// the hull is a point where two lines meet, each the border between two cells of a type or an axis. All pairs of lines
// are tried.
#include "compiler/remat/chain_search.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace l2l::compiler::remat {
namespace {

// Where two options of a type cost the same; without options an axis.
struct Line {
  std::vector<TypeOption> options = {};
  double device = 0, host = 0;  // the line is where device * x + host * y = time
  double time = 0, exact = 0;   // with times as perturbed, and as they are
};

// Times change by different amounts, so that no three lines meet in one point by accident. That may make a facet worse
// by a billionth, never invalid.
Loads perturbed(Loads types) {
  constexpr double kGoldenRatio = 0.6180339887498949, kShift = 1e-9;
  double turn = 0;
  for (std::vector<Load>& options : types) {
    for (Load& load : options) {
      turn = std::fmod(turn + kGoldenRatio, 1.0);
      load.time *= 1 + kShift * turn;
    }
  }
  return types;
}

std::vector<Line> lines_of(const Loads& types, const Loads& moved) {
  std::vector<Line> lines{{{}, 1, 0}, {{}, 0, 1}};
  for (std::size_t t = 0; t < types.size(); ++t) {
    for (std::size_t i = 0; i < types[t].size(); ++i) {
      for (std::size_t j = i + 1; j < types[t].size(); ++j) {
        const Load &a = types[t][i], &b = types[t][j];
        const double time = moved[t][j].time - moved[t][i].time;
        lines.push_back({{{t, i}, {t, j}}, a.device - b.device, a.host - b.host, time, b.time - a.time});
      }
    }
  }
  return lines;
}

bool of_two_types(const Line& a, const Line& b) {
  return !a.options.empty() && !b.options.empty() && a.options[0].type != b.options[0].type;
}

// Lines of one type meet where three of its options cost the same. Of the three pairs of them, the one in which both
// have the first option is enough.
bool repeats(const Line& a, const Line& b) {
  return !a.options.empty() && !b.options.empty() && a.options[0].option != b.options[0].option;
}

// The facet of the point where two lines meet, if all options of both cost least there.
std::optional<Facet> facet_at(const Line& a, const Line& b, const Loads& moved) {
  const double det = a.device * b.host - a.host * b.device;
  if (det == 0) return std::nullopt;
  const auto meet = [&](double of_a, double of_b) {
    return Multipliers{(of_a * b.host - a.host * of_b) / det, (a.device * of_b - of_a * b.device) / det};
  };
  const Multipliers at = meet(a.time, b.time), exact = meet(a.exact, b.exact);
  if (at.device < 0 || at.host < 0) return std::nullopt;
  std::vector<TypeOption> used = a.options;
  for (const TypeOption& option : b.options) {
    if (std::count(used.begin(), used.end(), option) == 0) used.push_back(option);
  }
  Facet facet{{}, {}, {std::max(0.0, exact.device), std::max(0.0, exact.host)}};
  for (std::size_t t = 0; t < moved.size(); ++t) {
    const auto cheaper = [&](const Load& one, const Load& other) { return at.of(one) < at.of(other); };
    const auto least = std::min_element(moved[t].begin(), moved[t].end(), cheaper) - moved[t].begin();
    const TypeOption base{t, static_cast<std::size_t>(least)};
    const auto of_type = [&](const TypeOption& option) { return option.type == t; };
    if (std::any_of(used.begin(), used.end(), of_type) && std::erase(used, base) == 0) return std::nullopt;
    facet.base.push_back(base.option);
  }
  facet.others = std::move(used);
  return facet;
}

}  // namespace

std::vector<Facet> find_facets(const Loads& types) {
  const Loads moved = perturbed(types);
  std::vector<Line> lines = lines_of(types, moved);
  std::vector<Facet> facets;
  const auto add_pairs = [&](const auto& skipped) {
    for (auto a = lines.begin(); a != lines.end(); ++a) {
      for (auto b = a + 1; b != lines.end(); ++b) {
        if (skipped(*a, *b)) continue;
        if (std::optional<Facet> facet = facet_at(*a, *b, moved)) facets.push_back(std::move(*facet));
      }
    }
  };
  add_pairs([](const Line& a, const Line& b) { return of_two_types(a, b) || repeats(a, b); });
  // What is not on the hull of its own type is on no other facet.
  const auto on_hull = [&](const TypeOption& option) {
    return std::any_of(facets.begin(), facets.end(), [&](const Facet& facet) { return facet.has(option); });
  };
  std::erase_if(lines,
                [&](const Line& line) { return !std::all_of(line.options.begin(), line.options.end(), on_hull); });
  add_pairs([](const Line& a, const Line& b) { return !of_two_types(a, b); });
  return facets;
}

}  // namespace l2l::compiler::remat

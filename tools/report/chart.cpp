#include "tools/report/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>

namespace l2l::tools {
namespace {

constexpr double kWidth = 560, kHeight = 260, kLeft = 62, kRight = 12, kTop = 10, kBottom = 30;

struct Range {
  double least = std::numeric_limits<double>::infinity(), most = -std::numeric_limits<double>::infinity();

  void take(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  // Not empty, and finite where the numbers are near the ends of a double.
  void widen() {
    const double room = most > least ? 0.04 * (most / 2 - least / 2) * 2 : std::max(1e-9, std::abs(most) * 0.1);
    least = std::max(least - room, -std::numeric_limits<double>::max() / 4);
    most = std::min(most + room, std::numeric_limits<double>::max() / 4);
  }
  double place(double value) const { return (value - least) / (most - least); }
};

// About `count` round numbers within the range: 1, 2 or 5 times a power of ten apart.
std::vector<double> ticks(const Range& range, int count) {
  const double rough = (range.most - range.least) / count, power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> found;
  if (!(step > 0) || !std::isfinite(step)) return found;
  for (double i = std::ceil(range.least / step); i * step <= range.most && found.size() < 20; ++i) {
    found.push_back(i * step == 0 ? 0 : i * step);
  }
  return found;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

double x_of(const Range& steps, double step) { return kLeft + steps.place(step) * (kWidth - kLeft - kRight); }
double y_of(const Range& values, double value) {
  return kHeight - kBottom - values.place(value) * (kHeight - kTop - kBottom);
}

std::string axes(const Range& steps, const Range& values) {
  std::string svg;
  for (const double value : ticks(values, 5)) {
    const std::string y = number(y_of(values, value));
    svg += "<line class=\"grid\" x1=\"" + number(kLeft) + "\" x2=\"" + number(kWidth - kRight) + "\" y1=\"" + y +
           "\" y2=\"" + y + "\"/><text x=\"" + number(kLeft - 6) + "\" y=\"" + y +
           "\" text-anchor=\"end\" dominant-baseline=\"middle\">" + short_number(value) + "</text>";
  }
  for (const double step : ticks(steps, 6)) {
    if (step < 0) continue;
    svg += "<text x=\"" + number(x_of(steps, step)) + "\" y=\"" + number(kHeight - 10) + "\" text-anchor=\"middle\">" +
           short_number(step, 6) + "</text>";
  }
  return svg;
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string safe;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    std::size_t length = byte < 0x80                   ? 1
                         : byte >= 0xc2 && byte < 0xe0 ? 2
                         : byte >= 0xe0 && byte < 0xf0 ? 3
                         : byte >= 0xf0 && byte < 0xf5 ? 4
                                                       : 0;
    for (std::size_t k = 1; k < length; ++k) {
      if (i + k >= text.size() || (static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) length = 0;
    }
    if (length == 0 || (byte < 0x20 && byte != '\n' && byte != '\t')) {
      safe += "\xef\xbf\xbd";
      ++i;
      continue;
    }
    const std::string one = text.substr(i, length);
    safe += one == "<" ? "&lt;" : one == ">" ? "&gt;" : one == "&" ? "&amp;" : one == "\"" ? "&quot;" : one;
    i += length;
  }
  return safe;
}

std::string short_number(double value, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

std::string chart(const std::string& title, const std::string& unit, const std::vector<ChartLine>& lines) {
  Range steps, values;
  for (const ChartLine& line : lines) {
    for (const auto& [step, value] : line.points) {
      steps.take(step);
      values.take(value);
    }
  }
  if (steps.least > steps.most) return "";
  if (steps.least == steps.most) steps.widen();
  values.widen();
  std::string svg = "<figure><figcaption>" + escaped(title) +
                    (unit.empty() ? "" : " <span>" + escaped(unit) + "</span>") + "</figcaption><svg viewBox=\"0 0 " +
                    number(kWidth) + " " + number(kHeight) + "\" role=\"img\" aria-label=\"" + escaped(title) + "\">" +
                    axes(steps, values);
  for (const ChartLine& line : lines) {
    std::string path;
    for (const auto& [step, value] : line.points) {
      path += (path.empty() ? "" : " ") + number(x_of(steps, step)) + "," + number(y_of(values, value));
    }
    const std::string style = "class=\"c" + std::to_string(line.colour % kColours) + "\"";
    if (line.points.size() == 1) {
      const auto& [step, value] = line.points.front();
      svg += "<circle " + style + " cx=\"" + number(x_of(steps, step)) + "\" cy=\"" + number(y_of(values, value)) +
             "\" r=\"3\"/>";
    }
    if (line.points.size() > 1) svg += "<polyline " + style + " points=\"" + path + "\"/>";
  }
  svg += "</svg>";
  if (lines.size() > 1) {
    svg += "<p class=\"legend\">";
    for (const ChartLine& line : lines) {
      svg += "<span class=\"c" + std::to_string(line.colour % kColours) + "\">" + escaped(line.label) + "</span> ";
    }
    svg += "</p>";
  }
  return svg + "</figure>\n";
}

}  // namespace l2l::tools

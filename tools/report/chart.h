// A line chart as SVG.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace l2l::tools {

// `text` as it may stand in HTML; bytes that are not UTF-8 become U+FFFD.
std::string escaped(const std::string& text);
// At most `digits` significant digits: "0.0123", "1.2e+09".
std::string short_number(double value, int digits = 4);

struct ChartLine {
  std::string label;
  int colour;  // 0 to kColours - 1: class c0, c1, ... of the page's style
  std::vector<std::pair<double, double>> points;
};
inline constexpr int kColours = 6;

// A figure: title, legend where there are several lines, axes with round numbers, lines. Empty where no line has a
// point.
std::string chart(const std::string& title, const std::string& unit, const std::vector<ChartLine>& lines);

}  // namespace l2l::tools

#include "compiler/memory/svg.h"

#include <algorithm>
#include <bit>
#include <map>
#include <ostream>
#include <set>

namespace l2l::compiler::memory {
namespace {

constexpr std::size_t kMostDrawn = 50'000;
constexpr double kWidth = 1200, kHeight = 700, kMargin = 10, kLegend = 20;

std::string purpose_of(const Tensor& tensor) {
  const std::size_t slash = tensor.name.find('/');
  if (slash != tensor.name.npos) return tensor.name.substr(0, slash);
  const Bytes from = Bytes{1} << (std::bit_width(tensor.size) - 1) / 4 * 4;
  return "from " + format_bytes(from);
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&') {
      safe += "&amp;";
    } else if (c == '<') {
      safe += "&lt;";
    } else if (static_cast<unsigned char>(c) < 32) {
      safe += ' ';
    } else {
      safe += c;
    }
  }
  return safe;
}

class Picture {
 public:
  Picture(std::ostream& stream, const Problem& problem, const Plan& plan, const std::vector<Index>& peak)
      : stream_(stream), problem_(problem), plan_(plan), peak_(peak.begin(), peak.end()) {}

  void draw() {
    choose();
    stream_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << kWidth + 2 * kMargin << ' '
            << kHeight + 2 * kMargin + kLegend << "\" font-family=\"sans-serif\" font-size=\"12\">\n";
    draw_legend();
    for (const Index t : drawn_) draw_tensor(t);
    stream_ << "</svg>\n";
  }

 private:
  void choose() {
    for (Index t = 0; t < problem_.tensors.size(); ++t) {
      if (problem_.alive(t)) drawn_.push_back(t);
    }
    std::stable_sort(drawn_.begin(), drawn_.end(),
                     [&](Index a, Index b) { return problem_.tensors[a].size > problem_.tensors[b].size; });
    if (drawn_.size() > kMostDrawn) drawn_.resize(kMostDrawn);
    for (const Index t : drawn_) {
      colours_.emplace(purpose_of(problem_.tensors[t]), colours_.size());
      first_ = t == drawn_[0] ? entry_sum(problem_.begin_of(t)) : std::min(first_, entry_sum(problem_.begin_of(t)));
      last_ = t == drawn_[0] ? entry_sum(problem_.end_of(t)) : std::max(last_, entry_sum(problem_.end_of(t)));
    }
  }

  std::string colour(std::size_t number) const {  // hues apart by the golden angle
    return "hsl(" + std::to_string(static_cast<int>(static_cast<double>(number) * 137.5) % 360) + ",65%,65%)";
  }

  void draw_legend() const {
    double x = kMargin;
    for (const auto& [purpose, number] : colours_) {
      stream_ << "<rect x=\"" << x << "\" y=\"4\" width=\"12\" height=\"12\" fill=\"" << colour(number)
              << "\"/><text x=\"" << x + 16 << "\" y=\"14\">" << escaped(purpose) << "</text>\n";
      x += 30 + 7 * static_cast<double>(purpose.size());
    }
    stream_ << "<rect x=\"" << kMargin << "\" y=\"" << kMargin + kLegend << "\" width=\"" << kWidth << "\" height=\""
            << kHeight << "\" fill=\"none\" stroke=\"gray\"/>\n";
  }

  void draw_tensor(Index t) const {
    const Tensor& tensor = problem_.tensors[t];
    const double wide = last_ > first_ ? kWidth / (last_ - first_) : 0;
    const double high = kHeight / static_cast<double>(std::max<Bytes>(1, plan_.footprint));
    const double height = static_cast<double>(tensor.size) * high;
    const double begin = entry_sum(problem_.begin_of(t)), end = entry_sum(problem_.end_of(t));
    stream_ << "<rect x=\"" << kMargin + (begin - first_) * wide << "\" y=\""
            << kMargin + kLegend + kHeight - static_cast<double>(plan_.offsets[t]) * high - height << "\" width=\""
            << (end - begin) * wide << "\" height=\"" << height << "\" fill=\""
            << colour(colours_.at(purpose_of(tensor))) << "\" stroke=\"" << (peak_.count(t) > 0 ? "black" : "white")
            << "\" stroke-width=\"0.5\"><title>" << escaped(tensor.name) << ": " << tensor.size << " bytes at "
            << plan_.offsets[t] << "</title></rect>\n";
  }

  std::ostream& stream_;
  const Problem& problem_;
  const Plan& plan_;
  const std::set<Index> peak_;
  std::vector<Index> drawn_;
  std::map<std::string, std::size_t> colours_;  // by purpose
  double first_ = 0, last_ = 0;
};

}  // namespace

void write_svg(std::ostream& stream, const Problem& problem, const Plan& plan, const std::vector<Index>& peak) {
  Picture(stream, problem, plan, peak).draw();
}

}  // namespace l2l::compiler::memory

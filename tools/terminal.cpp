#include "tools/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string_view>

namespace l2l::tools {
namespace {

constexpr int kUnknown = 80, kMost = 10000;

// As the terminal says; 0 where it does not, or where this is none.
int columns_of(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string join(const std::vector<LinePart>& parts) {
  std::string line;
  for (const LinePart& part : parts) {
    if (!line.empty()) line += "  ";
    line += part.text;
  }
  return line;
}

}  // namespace

bool rewrites_lines() {
  const char* const terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && (terminal == nullptr || std::string_view(terminal) != "dumb");
}

int terminal_columns() {
  if (const int said = columns_of(STDERR_FILENO); said > 0) return said;
  const char* const columns = std::getenv("COLUMNS");
  const int number = columns == nullptr ? 0 : std::atoi(columns);
  return number > 0 && number <= kMost ? number : kUnknown;
}

int message_columns() { return isatty(STDERR_FILENO) != 0 ? terminal_columns() : std::numeric_limits<int>::max(); }

int output_columns(int most) {
  const int said = columns_of(STDOUT_FILENO);
  return said > 0 ? std::min(most, said) : most;
}

std::string fit(std::vector<LinePart> parts, int columns) {
  const std::size_t room = static_cast<std::size_t>(std::max(1, columns - 1));
  while (parts.size() > 1 && join(parts).size() > room) {
    // Of equal ranks the last.
    const auto least = std::max_element(parts.rbegin(), parts.rend(),
                                        [](const LinePart& a, const LinePart& b) { return a.rank < b.rank; });
    parts.erase(std::next(least).base());
  }
  return join(parts).substr(0, room);
}

void rewrite_line(const std::string& line) {
  std::fprintf(stderr, "\r%s\033[K", line.c_str());
  std::fflush(stderr);
}

}  // namespace l2l::tools

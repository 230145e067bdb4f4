#include "tools/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <limits>
#include <string_view>

namespace l2l::tools {
namespace {

constexpr int kUnknown = 80, kMost = 10000;
constexpr int kPatience = 2000;  // ms

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

void write_message(std::string_view text) {
  static std::atomic<bool> held = false;
  while (!text.empty()) {
    pollfd out{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    held = poll(&out, 1, held ? 0 : kPatience) == 0;
    if (held) return;
    // A pipe that can be written to has room for that much.
    const ssize_t written = write(STDERR_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void rewrite_line(const std::string& line) { write_message("\r" + line + "\033[K"); }

}  // namespace l2l::tools

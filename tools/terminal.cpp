#include "tools/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <string_view>
#include <thread>

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

// Writes without waiting for longer than kPatience, and once it has waited so long, not at all until all goes well
// again.
class Messages {
 public:
  void write(std::string_view text) {
    const auto give_up = std::chrono::steady_clock::now() + (held_ ? std::chrono::milliseconds(0) : kPatience);
    held_ = false;
    while (!text.empty() && !held_) {
      const ssize_t written = ::write(descriptor_, text.data(), text.size());
      if (written > 0) {
        text.remove_prefix(static_cast<std::size_t>(written));
      } else if (written < 0 && errno == EAGAIN) {
        held_ = std::chrono::steady_clock::now() >= give_up;
        if (!held_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      } else if (written == 0 || errno != EINTR) {
        return;
      }
    }
  }

 private:
  // Standard error opened again where it may make a writer wait, so that this is not asked of whoever shares it.
  static int open_unblocking() {
    struct stat status {};
    const bool known = fstat(STDERR_FILENO, &status) == 0;
    if (!known || (!S_ISFIFO(status.st_mode) && isatty(STDERR_FILENO) == 0)) return STDERR_FILENO;
    const int opened = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return opened >= 0 ? opened : STDERR_FILENO;
  }

  static constexpr std::chrono::milliseconds kPatience{2000};
  const int descriptor_ = open_unblocking();
  bool held_ = false;
};

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
  static std::mutex mutex;
  static Messages messages;
  const std::lock_guard lock(mutex);
  messages.write(text);
}

void rewrite_line(const std::string& line) { write_message("\r" + line + "\033[K"); }

}  // namespace l2l::tools

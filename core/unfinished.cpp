#include "core/unfinished.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>

namespace l2l {

std::optional<pid_t> writer_of(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const std::size_t place = name.rfind(kUnfinished);
  if (place == std::string::npos) return std::nullopt;
  pid_t process = 0;
  const char* const end = name.data() + name.size();
  const auto [past, error] = std::from_chars(name.data() + place + kUnfinished.size(), end, process);
  const bool ends = past == end || (*past == '-' && past + 1 != end);
  return error == std::errc() && ends && process > 0 ? std::optional(process) : std::nullopt;
}

bool runs_elsewhere(pid_t process) { return process != getpid() && (kill(process, 0) == 0 || errno == EPERM); }

}  // namespace l2l

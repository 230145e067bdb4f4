#include "core/host_memory.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "core/allocator_roles.h"
#include "core/control_groups.h"
#include "l2l/errors.h"

namespace l2l {

namespace {

// A line such as "VmHWM:    1234 kB".
Bytes read_kib_field(const std::filesystem::path& file, const std::string& field) {
  std::ifstream stream(file);
  if (!stream) throw Error(file.string() + ": cannot be opened, so host memory is unknown");
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(field + ":")) continue;
    std::istringstream rest(line.substr(field.size() + 1));
    Bytes kib = 0;
    std::string unit;
    if (rest >> kib >> unit && unit == "kB" && kib <= std::numeric_limits<Bytes>::max() / kKiB) return kib * kKiB;
    throw Error(file.string() + ": " + field + " is not a number of kB: \"" + line + "\"");
  }
  throw Error(file.string() + ": has no " + field);
}

}  // namespace

Bytes HostMemory::peak_resident() const { return read_kib_field(proc_ / "self/status", "VmHWM"); }

Bytes HostMemory::address_space_used() const { return read_kib_field(proc_ / "self/status", "VmSize"); }

Bytes HostMemory::data_used() const { return read_kib_field(proc_ / "self/status", "VmData"); }

Bytes HostMemory::resident() const { return read_kib_field(proc_ / "self/status", "VmRSS"); }

HostAvailable HostMemory::address_space() const {
  rlimit limit{};
  HostAvailable unlimited{std::numeric_limits<Bytes>::max(), ""};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  const Bytes used = address_space_used();
  return {limit.rlim_cur > used ? limit.rlim_cur - used : 0, "the address-space limit (ulimit -v)"};
}

std::vector<HostAvailable> HostMemory::limits(int processes) const {
  std::vector<HostAvailable> all = control_group_limits(proc_);
  // First, so that the machine is named where limits are equal.
  all.insert(all.begin(), {read_kib_field(proc_ / "meminfo", "MemAvailable"), "MemAvailable of the machine"});
  if (processes > 1) {
    for (HostAvailable& each : all) {
      each.bytes /= static_cast<Bytes>(processes);
      each.source = "the share of each of " + std::to_string(processes) + " processes in " + each.source;
    }
  }
  all.push_back(address_space());
  return all;
}

HostAvailable HostMemory::available() const {
  return std::ranges::min(limits(/*processes=*/1), {}, &HostAvailable::bytes);
}

HostAvailable HostMemory::capacity(int processes) const {
  const Bytes held = resident();
  std::vector<HostAvailable> all = limits(processes);
  for (HostAvailable& each : all) {
    const Bytes room = std::numeric_limits<Bytes>::max() - held;
    each.bytes = std::min(each.limit, held + std::min(each.bytes, room));
  }
  return std::ranges::min(all, {}, &HostAvailable::bytes);
}

void release_free_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
  purge_arenas();
}

PeakResident::PeakResident() : status_(open("/proc/self/status", O_RDONLY | O_CLOEXEC)) {
  if (status_ < 0) throw Error("/proc/self/status: cannot be opened, so host memory is unknown");
}

PeakResident::~PeakResident() { close(status_); }

Bytes PeakResident::bytes() const {
  // The list of a user's groups, which may be long, stands before the field.
  constexpr std::string_view kField = "\nVmHWM:";
  std::array<char, 4096> text;
  std::size_t kept = 0;  // of the piece before, so that no field is cut
  for (off_t offset = 0;;) {
    const ssize_t length = pread(status_, text.data() + kept, text.size() - kept, offset);
    if (length <= 0) return 0;
    offset += length;
    const std::string_view piece(text.data(), kept + static_cast<std::size_t>(length));
    const std::size_t field = piece.find(kField), end = piece.find('\n', field + 1);
    if (field != piece.npos && end != piece.npos) {
      return std::strtoull(piece.data() + field + kField.size(), nullptr, 10) * kKiB;
    }
    kept = std::min<std::size_t>(piece.size(), 128);
    std::memmove(text.data(), piece.data() + piece.size() - kept, kept);
  }
}

}  // namespace l2l

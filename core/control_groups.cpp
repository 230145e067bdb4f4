#include "core/control_groups.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace l2l {
namespace {

namespace fs = std::filesystem;

// The memory files of one version of control groups.
struct Version {
  const char* limit;
  const char* usage;
  const char* cache[2];  // fields of memory.stat: page cache without shared memory
};

constexpr Version kUnified{"memory.max", "memory.current", {"active_file", "inactive_file"}};
constexpr Version kLegacy{
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_active_file", "total_inactive_file"}};

struct Mount {
  fs::path root;   // path in the hierarchy that is mounted
  fs::path point;  // where it is mounted
};

std::optional<Bytes> parse_number(const std::string& text) {
  Bytes value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// Empty for "max", and for a file that cannot be read.
std::optional<Bytes> read_number(const fs::path& file) {
  std::ifstream stream(file);
  std::string text;
  if (!(stream >> text)) return std::nullopt;
  return parse_number(text);
}

Bytes reclaimable(const fs::path& group, const Version& version) {
  std::ifstream stream(group / "memory.stat");
  Bytes total = 0, value = 0;
  for (std::string field; stream >> field >> value;) {
    if (field == version.cache[0] || field == version.cache[1]) total += value;
  }
  return total;
}

void add_limits(fs::path group, const Mount& mount, const Version& version, std::vector<HostAvailable>& limits) {
  for (;; group = group.parent_path()) {
    const std::optional<Bytes> limit = read_number(group / version.limit), usage = read_number(group / version.usage);
    if (limit && usage) {
      const Bytes used = *usage - std::min(*usage, reclaimable(group, version));
      limits.push_back({*limit - std::min(*limit, used), (group / version.limit).string(), *limit});
    }
    if (group == mount.point || !group.has_relative_path()) return;
  }
}

bool lists(const std::string& controllers, const std::string& name) {
  std::istringstream stream(controllers);
  for (std::string controller; std::getline(stream, controller, ',');) {
    if (controller == name) return true;
  }
  return false;
}

// From mountinfo: "36 35 98:0 /root /point options - type source super-options" (proc(5)).
std::optional<Mount> find_mount(const fs::path& proc, const std::string& type, const std::string& controller) {
  std::ifstream stream(proc / "self/mountinfo");
  for (std::string line; std::getline(stream, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line), after(line.substr(dash + 3));
    std::string skipped, root, point, found, source, super_options;
    before >> skipped >> skipped >> skipped >> root >> point;
    after >> found >> source >> super_options;
    if (found == type && (controller.empty() || lists(super_options, controller))) return Mount{root, point};
  }
  return std::nullopt;
}

// A line "hierarchy:controllers:path" of /proc/self/cgroup (cgroups(7)); the unified hierarchy has no controllers.
struct Membership {
  std::string controllers;
  fs::path group;
};

std::vector<Membership> read_memberships(const fs::path& file) {
  std::vector<Membership> memberships;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    memberships.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return memberships;
}

std::optional<fs::path> find_group(const fs::path& proc, const std::string& controller) {
  for (const auto& [controllers, group] : read_memberships(proc / "self/cgroup")) {
    if (controller.empty() ? controllers.empty() : lists(controllers, controller)) return group;
  }
  return std::nullopt;
}

void add_hierarchy(const fs::path& proc, const std::string& type, const std::string& controller, const Version& version,
                   std::vector<HostAvailable>& limits) {
  const auto mount = find_mount(proc, type, controller);
  const auto group = find_group(proc, controller);
  if (!mount || !group) return;
  // A container may see its group's path on the whole machine while its mount begins at that group: then take the
  // mount.
  const fs::path relative = group->lexically_relative(mount->root);
  const bool below = !relative.empty() && *relative.begin() != "..";
  fs::path folder = below && relative != "." ? mount->point / relative : mount->point;
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) folder = mount->point;
  add_limits(folder, *mount, version, limits);
}

int cores(double quota_us, double period_us) {
  if (quota_us <= 0 || period_us <= 0) return 0;
  return static_cast<int>(std::clamp((quota_us + period_us - 1) / period_us, 1.0, 1e6));
}

// Of v2's "cpu.max" ("max 100000" or "150000 100000") or v1's two files, of which a quota of -1 means none.
int quota_of(const fs::path& group) {
  std::ifstream both(group / "cpu.max"), quota_file(group / "cpu.cfs_quota_us"),
      period_file(group / "cpu.cfs_period_us");
  double quota = 0, period = 0;
  const bool there = both >> quota >> period || (quota_file >> quota && period_file >> period);
  return there ? cores(quota, period) : 0;
}

int tighter(int a, int b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

// A limit of any ancestor holds too. Inside a container the path may not exist below the mount; its root then does.
int tightest(const fs::path& mount, fs::path group) {
  int result = quota_of(mount);
  for (group = group.relative_path(); !group.empty(); group = group.parent_path()) {
    result = tighter(result, quota_of(mount / group));
  }
  return result;
}

}  // namespace

std::vector<HostAvailable> control_group_limits(const fs::path& proc) {
  std::vector<HostAvailable> limits;
  add_hierarchy(proc, "cgroup2", "", kUnified, limits);
  add_hierarchy(proc, "cgroup", "memory", kLegacy, limits);
  return limits;
}

int cpu_quota(const fs::path& membership, const fs::path& mount) {
  int result = 0;
  for (const auto& [controllers, group] : read_memberships(membership)) {
    if (controllers.empty()) result = tighter(result, tightest(mount, group));
    if (lists(controllers, "cpu")) result = tighter(result, tightest(mount / controllers, group));
  }
  return result;
}

}  // namespace l2l

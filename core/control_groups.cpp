#include "core/control_groups.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace l2l {

namespace {

// The names of one version's files.
struct Version {
  const char* limit;
  const char* usage;
  const char* cache[2];  // fields of memory.stat: page cache, shared memory apart
};

constexpr Version kUnified{"memory.max", "memory.current", {"active_file", "inactive_file"}};
constexpr Version kLegacy{
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_active_file", "total_inactive_file"}};

struct Mount {
  std::filesystem::path root;   // of the hierarchy, that is mounted
  std::filesystem::path point;  // where
};

std::optional<Bytes> parse_number(const std::string& text) {
  Bytes value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// Nothing for "max" and for a file that cannot be read.
std::optional<Bytes> read_number(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string text;
  if (!(stream >> text)) return std::nullopt;
  return parse_number(text);
}

Bytes reclaimable(const std::filesystem::path& group, const Version& version) {
  std::ifstream stream(group / "memory.stat");
  Bytes total = 0, value = 0;
  for (std::string field; stream >> field >> value;) {
    if (field == version.cache[0] || field == version.cache[1]) total += value;
  }
  return total;
}

void add_limits(std::filesystem::path group, const Mount& mount, const Version& version,
                std::vector<HostAvailable>& limits) {
  for (;; group = group.parent_path()) {
    const std::optional<Bytes> limit = read_number(group / version.limit), usage = read_number(group / version.usage);
    if (limit && usage) {
      const Bytes used = *usage - std::min(*usage, reclaimable(group, version));
      limits.push_back({*limit - std::min(*limit, used), (group / version.limit).string()});
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
std::optional<Mount> find_mount(const std::filesystem::path& proc, const std::string& type,
                                const std::string& controller) {
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

// From "hierarchy:controllers:path" (cgroups(7)); the unified hierarchy has no controllers.
std::optional<std::filesystem::path> find_group(const std::filesystem::path& proc, const std::string& controller) {
  std::ifstream stream(proc / "self/cgroup");
  for (std::string line; std::getline(stream, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool match = controller.empty() ? controllers.empty() : lists(controllers, controller);
    if (match) return line.substr(second + 1);
  }
  return std::nullopt;
}

void add_hierarchy(const std::filesystem::path& proc, const std::string& type, const std::string& controller,
                   const Version& version, std::vector<HostAvailable>& limits) {
  const auto mount = find_mount(proc, type, controller);
  const auto group = find_group(proc, controller);
  if (!mount || !group) return;
  // A container sees the whole machine's path of its group while its mount begins at that group: then the mount is it.
  const std::filesystem::path relative = group->lexically_relative(mount->root);
  const bool below = !relative.empty() && *relative.begin() != "..";
  std::filesystem::path folder = below && relative != "." ? mount->point / relative : mount->point;
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) folder = mount->point;
  add_limits(folder, *mount, version, limits);
}

}  // namespace

std::vector<HostAvailable> control_group_limits(const std::filesystem::path& proc) {
  std::vector<HostAvailable> limits;
  add_hierarchy(proc, "cgroup2", "", kUnified, limits);
  add_hierarchy(proc, "cgroup", "memory", kLegacy, limits);
  return limits;
}

}  // namespace l2l

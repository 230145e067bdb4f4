#include "core/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace l2l {
namespace {

namespace fs = std::filesystem;

int cores(double quota_us, double period_us) {
  if (quota_us <= 0 || period_us <= 0) return 0;
  return static_cast<int>(std::clamp((quota_us + period_us - 1) / period_us, 1.0, 1e6));
}

// "max 100000" or "150000 100000"
int quota_v2(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  double quota = 0, period = 0;
  return file >> quota >> period ? cores(quota, period) : 0;
}

int quota_v1(const fs::path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us"), period_file(group / "cpu.cfs_period_us");
  double quota = 0, period = 0;  // a quota of -1 means none
  return quota_file >> quota && period_file >> period ? cores(quota, period) : 0;
}

int tighter(int a, int b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

// A limit of any ancestor holds too. Inside a container the path may not exist below the mount; its root then does.
int tightest(const fs::path& mount, fs::path group, int (*read)(const fs::path&)) {
  int result = read(mount);
  for (group = group.relative_path(); !group.empty(); group = group.parent_path()) {
    result = tighter(result, read(mount / group));
  }
  return result;
}

bool lists_cpu(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == "cpu") return true;
  }
  return false;
}

}  // namespace

int cpu_quota(const fs::path& membership, const fs::path& mount) {
  int result = 0;
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);) {  // "hierarchy:controllers:path"
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) result = tighter(result, tightest(mount, group, quota_v2));
    if (lists_cpu(controllers)) result = tighter(result, tightest(mount / controllers, group, quota_v1));
  }
  return result;
}

}  // namespace l2l

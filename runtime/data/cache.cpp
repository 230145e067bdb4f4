#include "runtime/data/cache.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <random>
#include <vector>

#include "core/files.h"
#include "core/hash.h"
#include "core/unfinished.h"
#include "l2l/errors.h"

namespace l2l::runtime {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kMostHashes = 4 * kMiB;
constexpr Bytes kDiskBlock = 4 * kKiB;  // what the smallest file takes

std::optional<std::uint64_t> read_hash(const fs::path& file, const std::string& facts) {
  std::ifstream stream(file);
  std::string digits, text;
  if (!std::getline(stream, digits) || digits.size() != 16) return std::nullopt;
  text.assign(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  if (text != facts || digits.find_first_not_of("0123456789abcdef") != std::string::npos) return std::nullopt;
  return std::stoull(digits, nullptr, 16);
}

}  // namespace

fs::path cache_folder() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return fs::path(value != nullptr ? value : "");
  };
  if (const fs::path cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache / "l2l";
  if (const fs::path home = variable("HOME"); !home.empty()) return home / ".cache/l2l";
  return {};
}

std::string file_facts(const fs::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) throw BadInput(file.string() + ": cannot be examined");
  const auto text_of = [](const timespec& time) {
    return std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec);
  };
  std::error_code ignored;
  // Programs may set st_mtim as they like, but not st_ctim.
  return fs::canonical(file, ignored).string() + " " + std::to_string(status.st_size) + " " + text_of(status.st_mtim) +
         " " + text_of(status.st_ctim) + " " + std::to_string(status.st_ino);
}

std::uint64_t remembered_hash(const std::string& facts, const std::function<std::uint64_t()>& compute) {
  if (cache_folder().empty()) return compute();
  Hash64 name;
  name.update(std::as_bytes(std::span(facts)));
  const fs::path folder = cache_folder() / "hashes", file = folder / to_hex(name.value());
  if (const std::optional<std::uint64_t> known = read_hash(file, facts)) return *known;
  const std::uint64_t hash = compute();
  std::error_code error;
  fs::create_directories(folder, error);
  std::ofstream(unfinished(file)) << to_hex(hash) << '\n' << facts;
  fs::rename(unfinished(file), file, error);
  trim_cache(folder, {file}, kMostHashes);
  return hash;
}

void trim_cache(const fs::path& folder, const std::set<fs::path>& used, Bytes most) {
  struct Entry {
    fs::file_time_type time;
    Bytes bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  Bytes sum = 0;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (!entry.is_regular_file(ignored)) continue;
    const Bytes blocks = align_up(entry.file_size(ignored), kDiskBlock);
    entries.push_back({entry.last_write_time(ignored), blocks, entry.path()});
    sum += entries.back().bytes;
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.time < b.time; });
  for (const Entry& entry : entries) {
    if (sum <= most) return;
    if (used.count(entry.path) > 0 || !fs::remove(entry.path, ignored)) continue;
    sum -= entry.bytes;
  }
}

fs::path unfinished(const fs::path& path) {
  // Processes of several containers or machines may have one number, and one folder.
  static thread_local const std::string token = [] {
    std::random_device device;
    return to_hex(std::uint64_t{device()} << 32 | device());
  }();
  return path.string() + std::string(kUnfinished) + std::to_string(getpid()) + "-" + token;
}

void remove_unfinished(const fs::path& folder) {
  constexpr std::chrono::hours kLongest{24};  // a process of another machine that has this folder may still write
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::optional<pid_t> process = writer_of(entry.path());
    if (!process || kill(*process, 0) == 0 || errno != ESRCH) continue;
    if (entry.last_write_time(ignored) + kLongest < fs::file_time_type::clock::now()) fs::remove(entry.path(), ignored);
  }
}

}  // namespace l2l::runtime

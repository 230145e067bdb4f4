#include "runtime/data/data_files.h"

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "core/checked.h"
#include "l2l/errors.h"

namespace l2l::runtime {

namespace {

class Glob {
 public:
  explicit Glob(const std::string& pattern) : status_(glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches_)) {}
  ~Glob() { globfree(&matches_); }
  Glob(const Glob&) = delete;
  Glob& operator=(const Glob&) = delete;

  int status() const { return status_; }
  // In byte order, whatever the locale.
  std::vector<std::string> sorted() const {
    std::vector<std::string> names(matches_.gl_pathv, matches_.gl_pathv + matches_.gl_pathc);
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  glob_t matches_{};
  int status_;
};

std::vector<std::string> expand(const std::string& pattern, const std::string& key) {
  std::error_code ignored;
  if (std::filesystem::exists(pattern, ignored)) return {pattern};  // a file's name may contain [ or *
  const Glob matches(pattern);
  if (matches.status() == GLOB_NOSPACE) throw OutOfMemory(key + ": no memory to expand \"" + pattern + "\"");
  if (matches.status() != 0) throw BadInput(key + ": no file matches \"" + pattern + "\"");
  return matches.sorted();
}

Bytes measure(const std::string& name, const std::string& key) {
  struct stat status {};
  const std::string what = key + ": " + name;
  if (stat(name.c_str(), &status) != 0) throw BadInput(what + ": " + std::strerror(errno));
  if (S_ISDIR(status.st_mode))
    throw BadInput(what + ": is a directory; name its files, such as \"" + name + "/*.txt\"");
  if (!S_ISREG(status.st_mode)) throw BadInput(what + ": is not a regular file");
  if (access(name.c_str(), R_OK) != 0) throw BadInput(what + ": cannot be read: " + std::strerror(errno));
  return static_cast<Bytes>(status.st_size);
}

}  // namespace

std::uint64_t token_bytes(TokenFormat format) {
  return format == TokenFormat::text ? 1 : format == TokenFormat::tokens ? 2 : 4;
}

std::uint64_t DataFiles::tokens() const {
  std::uint64_t tokens = 0;
  for (const DataFile& file : files) {
    const std::uint64_t own =
        format == TokenFormat::text ? checked_add(file.bytes, 1, key) : file.bytes / token_bytes(format);
    tokens = checked_add(tokens, own, key);
  }
  return tokens;
}

std::string DataFiles::description() const {
  std::string names = files.front().name().string();
  if (files.size() > 1) names += " and " + std::to_string(files.size() - 1) + " more";
  return key + " (" + names + ")";
}

std::vector<DataFile> find_files(const std::vector<std::string>& patterns, const std::string& key) {
  std::vector<DataFile> files;
  std::set<std::filesystem::path> seen;
  for (const std::string& pattern : patterns) {
    for (const std::string& name : expand(pattern, key)) {
      const Bytes bytes = measure(name, key);
      std::error_code error;
      const std::filesystem::path canonical = std::filesystem::canonical(name, error);
      if (error) throw BadInput(key + ": " + name + ": " + error.message());
      if (seen.insert(canonical).second) files.push_back({name, bytes});
    }
  }
  if (files.empty()) throw BadInput(key + ": names no file");
  return files;
}

DataFiles find_data(const std::vector<std::string>& patterns, TokenFormat format, const std::string& key) {
  DataFiles data{key, format, find_files(patterns, key)};
  for (const DataFile& file : data.files) {
    if (file.bytes % token_bytes(format) == 0) continue;
    throw BadInput(key + ": " + file.path.string() + ": " + std::to_string(file.bytes) + " bytes; data.format = \"" +
                   (format == TokenFormat::tokens ? "tokens\" has two" : "tokens32\" has four") + " bytes per token");
  }
  return data;
}

}  // namespace l2l::runtime

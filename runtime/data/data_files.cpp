// find_data(): expands globs and checks the files that they name.
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "l2l/errors.h"
#include "runtime/data/dataset.h"

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

Bytes measure(const std::string& name, TokenFormat format, const std::string& key) {
  struct stat status {};
  const std::string what = key + ": " + name;
  if (stat(name.c_str(), &status) != 0) throw BadInput(what + ": " + std::strerror(errno));
  if (S_ISDIR(status.st_mode))
    throw BadInput(what + ": is a directory; name its files, such as \"" + name + "/*.txt\"");
  if (!S_ISREG(status.st_mode)) throw BadInput(what + ": is not a regular file");
  if (access(name.c_str(), R_OK) != 0) throw BadInput(what + ": cannot be read: " + std::strerror(errno));
  const auto bytes = static_cast<Bytes>(status.st_size);
  if (bytes % token_bytes(format) != 0) {
    throw BadInput(what + ": " + std::to_string(bytes) + " bytes; data.format = \"" +
                   (format == TokenFormat::tokens ? "tokens\" has two" : "tokens32\" has four") + " bytes per token");
  }
  return bytes;
}

}  // namespace

DataFiles find_data(const std::vector<std::string>& patterns, TokenFormat format, const std::string& key) {
  DataFiles data{key, format, {}};
  std::set<std::filesystem::path> seen;
  for (const std::string& pattern : patterns) {
    for (const std::string& name : expand(pattern, key)) {
      const Bytes bytes = measure(name, format, key);
      std::error_code error;
      const std::filesystem::path canonical = std::filesystem::canonical(name, error);
      if (error) throw BadInput(key + ": " + name + ": " + error.message());
      if (seen.insert(canonical).second) data.files.push_back({name, bytes});
    }
  }
  if (data.files.empty()) throw BadInput(key + ": names no file");
  return data;
}

}  // namespace l2l::runtime

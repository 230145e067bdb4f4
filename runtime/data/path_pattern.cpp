#include "runtime/data/path_pattern.h"

#include <glob.h>

#include <algorithm>

#include "l2l/errors.h"

namespace l2l::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSpecial = "*?[", kAnyFolders = "**";

class Glob {
 public:
  explicit Glob(const std::string& pattern) : status_(glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches_)) {
    if (status_ == GLOB_NOSPACE) throw OutOfMemory("no memory to expand \"" + pattern + "\"");
  }
  ~Glob() { globfree(&matches_); }
  Glob(const Glob&) = delete;
  Glob& operator=(const Glob&) = delete;

  std::vector<std::string> names() const {
    if (status_ != 0) return {};
    return {matches_.gl_pathv, matches_.gl_pathv + matches_.gl_pathc};
  }

 private:
  glob_t matches_{};
  int status_;
};

std::string escaped(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (c == '\\' || kSpecial.find(c) != std::string_view::npos) text += '\\';
    text += c;
  }
  return text;
}

// `folder` and the folders below it, but for those that may not be read. Throws BadInput where one cannot be.
std::vector<fs::path> folders_below(const fs::path& folder) {
  std::vector<fs::path> folders{folder};
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error);
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) return folders;
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_directory(ignored) || entry->is_symlink(ignored)) continue;
    if (entry->path().filename().string().starts_with('.')) {
      entry.disable_recursion_pending();
    } else {
      folders.push_back(entry->path());
    }
  }
  if (error) throw BadInput(folder.string() + ": cannot be searched: " + error.message());
  return folders;
}

// Where the first component ** of `pattern` begins; npos: there is none.
std::size_t find_any_folders(const std::string& pattern) {
  for (std::size_t at = pattern.find(kAnyFolders); at != std::string::npos; at = pattern.find(kAnyFolders, at + 1)) {
    const std::size_t end = at + kAnyFolders.size();
    if ((at == 0 || pattern[at - 1] == '/') && (end == pattern.size() || pattern[end] == '/')) return at;
  }
  return std::string::npos;
}

// Files that match, with repetitions, in no order.
void expand_folders(const std::string& pattern, std::vector<std::string>& names) {
  const std::size_t at = find_any_folders(pattern);
  std::error_code ignored;
  if (at == std::string::npos) {
    for (const std::string& name : Glob(pattern).names()) {
      if (!fs::is_directory(name, ignored)) names.push_back(name);
    }
    return;
  }
  const std::size_t end = at + kAnyFolders.size();
  const std::string rest = end + 1 < pattern.size() ? pattern.substr(end + 1) : "*";
  const std::vector<std::string> heads = at == 0 ? std::vector<std::string>{"."} : Glob(pattern.substr(0, at)).names();
  for (const std::string& head : heads) {
    for (const fs::path& folder : folders_below(head)) {
      std::string within = escaped((at == 0 ? folder.lexically_relative(".") : folder).string());
      if (within == ".") within.clear();
      if (!within.empty() && !within.ends_with('/')) within += '/';
      expand_folders(within + rest, names);
    }
  }
}

}  // namespace

bool is_pattern(const std::string& name) { return name.find_first_of(kSpecial) != std::string::npos; }

std::vector<std::string> expand_pattern(const std::string& pattern) {
  std::error_code ignored;
  if (fs::exists(pattern, ignored)) return {pattern};  // a file's name may contain [ or *
  std::vector<std::string> names;
  if (find_any_folders(pattern) == std::string::npos) {
    names = Glob(pattern).names();
  } else {
    expand_folders(pattern, names);
  }
  std::sort(names.begin(), names.end());  // in byte order, whatever the locale
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

fs::path searched_folder(const std::string& pattern) {
  const fs::path folder = fs::path(pattern.substr(0, pattern.find_first_of(kSpecial))).parent_path();
  return folder.empty() ? fs::current_path() : fs::absolute(folder).lexically_normal();
}

std::string in_folder(const fs::path& folder, const std::string& name) {
  return (is_pattern(name) ? escaped(folder.string()) : folder.string()) + "/" + name;
}

}  // namespace l2l::runtime

#include "runtime/data/data_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>

#include "core/checked.h"
#include "core/error_place.h"
#include "l2l/errors.h"
#include "runtime/data/path_pattern.h"

namespace l2l::runtime {

namespace {

std::vector<std::string> expand(const std::string& pattern, const std::string& key) {
  std::vector<std::string> names = expand_pattern(pattern);
  if (!names.empty()) return names;
  const std::filesystem::path folder = searched_folder(pattern);
  std::error_code ignored;
  throw BadInput(key + ": no file matches \"" + pattern + "\"; " +
                     (std::filesystem::is_directory(folder, ignored) ? "searched in " + folder.string()
                                                                     : "there is no folder " + folder.string()),
                 of_file(pattern, key));
}

// "data.train = ["books/*.txt"]", with the most frequent extension of the folder's files.
std::string suggest_files(std::filesystem::path folder, const std::string& key) {
  if (!folder.has_filename()) folder = folder.parent_path();
  std::map<std::string, int> counts;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored)) ++counts[entry->path().extension().string()];
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::string extension = most == counts.end() ? ".txt" : most->first;
  const std::string name = key.starts_with("data.source") ? "train" : key;
  return name + " = [\"" + (folder / ("*" + extension)).string() + "\"]";
}

[[noreturn]] void refuse(const std::string& key, const std::string& file, const std::string& reason) {
  throw BadInput(key + ": " + file + ": " + reason, of_file(file, key));
}

Bytes measure(const std::string& name, const std::string& key) {
  struct stat status {};
  if (stat(name.c_str(), &status) != 0) refuse(key, name, std::strerror(errno));
  if (S_ISDIR(status.st_mode)) refuse(key, name, "is a directory; name its files: " + suggest_files(name, key));
  if (!S_ISREG(status.st_mode)) refuse(key, name, "is not a regular file");
  if (access(name.c_str(), R_OK) != 0) refuse(key, name, std::string("cannot be read: ") + std::strerror(errno));
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
      if (error) refuse(key, name, error.message());
      if (seen.insert(canonical).second) files.push_back({name, bytes});
    }
  }
  if (files.empty()) throw BadInput(key + ": names no file", of_key(key));
  return files;
}

DataFiles find_data(const std::vector<std::string>& patterns, TokenFormat format, const std::string& key) {
  DataFiles data{key, format, find_files(patterns, key)};
  for (const DataFile& file : data.files) {
    if (file.bytes % token_bytes(format) == 0) continue;
    refuse(key, file.path.string(),
           std::to_string(file.bytes) + " bytes; data.format = \"" +
               (format == TokenFormat::tokens ? "tokens\" has two" : "tokens32\" has four") + " bytes per token");
  }
  return data;
}

}  // namespace l2l::runtime

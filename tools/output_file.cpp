#include "tools/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>

#include "base/file_behind.h"
#include "base/json.h"
#include "l2l/errors.h"

namespace l2l::tools {
namespace {

namespace fs = std::filesystem;

std::string beginning_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kBeginning, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

bool is_metrics(std::string_view beginning) {
  const nlohmann::json line = parse_json(std::string(beginning.substr(0, beginning.find('\n'))));
  return line.is_object() && line.contains("step") && line["step"].is_number_unsigned() &&
         (line.contains("step_ms") || line.contains("validation_loss") || line.contains("allocator"));
}

bool is_trace(std::string_view beginning) { return beginning.starts_with("{\"displayTimeUnit\":"); }

bool is_npy(std::string_view beginning) { return beginning.starts_with("\x93NUMPY"); }

void check_ours(const fs::path& path, const std::string& option, IsOurs ours) {
  if (path.empty()) return;
  std::error_code error;
  const bool there = fs::exists(path, error);
  if (access((there ? path : fs::absolute(path).parent_path()).c_str(), W_OK) != 0) {
    throw BadInput(option + " " + path.string() + ": cannot be written: " + std::strerror(errno));
  }
  if (fs::is_directory(path, error)) throw BadInput(option + " " + path.string() + ": is a directory");
  if (!fs::is_regular_file(path, error)) return;
  const std::string beginning = beginning_of(path);
  if (!beginning.empty() && !ours(beginning)) {
    throw BadInput(option + " " + path.string() +
                   ": is there already and is no file that this option wrote; name another file, or move it away");
  }
}

void check_ours_alone(const fs::path& path, const std::string& option, IsOurs ours) {
  check_ours(path, option, ours);
  std::error_code ignored;
  if (path.empty() || !fs::exists(path, ignored) || fs::is_regular_file(path, ignored)) return;
  throw BadInput(option + " " + path.string() + ": is a pipe or device; this needs a file");
}

void check_apart(const std::vector<NamedFile>& files) {
  std::error_code error, ignored;
  std::map<fs::path, std::string> option_of;
  for (const auto& [option, path] : files) {
    if (path.empty() || (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored))) continue;
    const fs::path resolved = fs::weakly_canonical(fs::absolute(path), error);
    if (error) continue;  // as of a name that is too long: nothing can be written there either
    const auto [first, is_new] = option_of.emplace(resolved, option);
    if (is_new) continue;
    throw BadInput(option + " " + path.string() + ": is the file of " + first->second + ", too; name another one");
  }
}

void check_folder(const fs::path& path, const std::string& option) {
  if (path.empty()) return;
  const auto refuse = [&](const fs::path& there, const std::string& reason) {
    throw BadInput(option + " " + path.string() + ": cannot be made: " + there.string() + ": " + reason);
  };
  std::error_code error;
  fs::path there = fs::absolute(path);
  while (!fs::exists(fs::symlink_status(there, error)) && there.has_relative_path()) there = there.parent_path();
  if (!fs::is_directory(there, error)) refuse(there, "is not a directory");
  if (access(there.c_str(), W_OK | X_OK) != 0) refuse(there, std::strerror(errno));
}

void make_room(const fs::path& path, const std::string& option, IsOurs ours) {
  check_ours(path, option, ours);
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) == 0) return;
  fs::path aside;
  for (int n = 1; aside.empty() || fs::exists(fs::symlink_status(aside, error)); ++n) {
    aside = path.string() + ".earlier-" + std::to_string(n);
  }
  fs::rename(path, aside, error);
  if (error) {
    throw BadInput(option + " " + path.string() + ": cannot be renamed to " + aside.string() + ": " + error.message());
  }
}

void replace_file(const fs::path& path, const std::string& text) {
  std::error_code error, ignored;
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) {  // a device or a pipe, which takes the text
    if (std::ofstream(path, std::ios::binary) << text << std::flush) return;
    throw Error(path.string() + ": cannot be written: " + std::strerror(errno));
  }
  const FileBeside beside(path);
  if (std::ofstream(beside.path(), std::ios::binary) << text << std::flush) {
    error = beside.take_place();
    if (!error) return;
  } else {
    error.assign(errno, std::generic_category());
  }
  throw Error(path.string() + ": cannot be written: " + error.message());
}

}  // namespace l2l::tools

#include "eps/checkpoint_folders.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <tuple>

#include "core/log.h"
#include "eps/files.h"
#include "eps/manifest.h"
#include "l2l/errors.h"

namespace l2l::eps {

namespace {

constexpr std::string_view kPrefix = "step-", kReplaced = ".old", kTemporary = ".tmp-";

std::optional<std::uint64_t> parse_number(std::string_view digits) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<CheckpointFolder> parse_folder(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  std::string_view digits = name;
  if (!digits.starts_with(kPrefix)) return std::nullopt;
  digits.remove_prefix(kPrefix.size());
  const bool replaced = digits.ends_with(kReplaced);
  if (replaced) digits.remove_suffix(kReplaced.size());
  const std::optional<std::uint64_t> step = parse_number(digits);
  if (!step) return std::nullopt;
  return CheckpointFolder{path, *step, replaced};
}

std::vector<std::filesystem::path> list(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    entries.push_back(entry->path());
  if (error) throw BadInput(directory.string() + ": checkpoints cannot be listed: " + error.message());
  return entries;
}

// Of ".step-00000042.tmp-1234".
std::optional<pid_t> owner(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const std::size_t place = name.rfind(kTemporary);
  if (!name.starts_with(".step-") || place == std::string::npos) return std::nullopt;
  const auto number = parse_number(std::string_view(name).substr(place + kTemporary.size()));
  return number ? std::optional<pid_t>(static_cast<pid_t>(*number)) : std::nullopt;
}

bool runs_elsewhere(pid_t process) {
  return process != getpid() && process > 0 && (kill(process, 0) == 0 || errno == EPERM);
}

std::filesystem::path temporary_name(const std::filesystem::path& folder) {
  return folder.parent_path() / ("." + folder.filename().string() + std::string(kTemporary) + std::to_string(getpid()));
}

// Hidden first, so that nobody sees half of it. Failure costs space, not safety.
void discard(const std::filesystem::path& folder) {
  try {
    const std::filesystem::path hidden = temporary_name(folder);
    move_folder(folder, hidden);
    remove_folder(hidden);
  } catch (const Error& error) {
    log(LogLevel::warning, std::string("an old checkpoint stays: ") + error.what());
  }
}

}  // namespace

std::string folder_name(std::uint64_t step) {
  const std::string digits = std::to_string(step);
  return std::string(kPrefix) + std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0') + digits;
}

std::filesystem::path temporary_folder(const std::filesystem::path& directory, std::uint64_t step) {
  return temporary_name(directory / folder_name(step));
}

std::vector<CheckpointFolder> list_checkpoints(const std::filesystem::path& directory) {
  std::vector<CheckpointFolder> folders;
  for (const std::filesystem::path& path : list(directory)) {
    if (auto folder = parse_folder(path)) folders.push_back(std::move(*folder));
  }
  std::sort(folders.begin(), folders.end(), [](const CheckpointFolder& a, const CheckpointFolder& b) {
    return std::tuple(b.step, a.replaced, a.path) < std::tuple(a.step, b.replaced, b.path);
  });
  return folders;
}

std::string defect(const std::filesystem::path& folder) {
  try {
    for (const auto& [name, file] : read_manifest(folder).files) {
      std::error_code error;
      const Bytes bytes = std::filesystem::file_size(folder / name, error);
      if (error) return (folder / name).string() + ": " + error.message();
      if (bytes != file.bytes) {
        return (folder / name).string() + ": has " + std::to_string(bytes) + " bytes; the manifest says " +
               std::to_string(file.bytes);
      }
    }
  } catch (const CorruptFile& error) {
    return error.what();
  }
  return "";
}

std::filesystem::path publish(const std::filesystem::path& directory, const std::filesystem::path& temporary,
                              std::uint64_t step) {
  const std::filesystem::path target = directory / folder_name(step);
  const std::filesystem::path old = target.string() + std::string(kReplaced);
  std::error_code ignored;
  if (std::filesystem::exists(target, ignored)) {
    if (std::filesystem::exists(old, ignored)) discard(old);
    move_folder(target, old);
    sync_folder(directory);
  }
  move_folder(temporary, target);
  sync_folder(directory);
  if (std::filesystem::exists(old, ignored)) discard(old);
  return target;
}

void prune(const std::filesystem::path& directory, const std::filesystem::path& newest, int keep) {
  int kept = 0;
  for (const CheckpointFolder& folder : list_checkpoints(directory)) {
    if (kept < keep) {
      kept += defect(folder.path).empty();
    } else if (folder.path != newest) {
      discard(folder.path);
    }
  }
}

void remove_stale(const std::filesystem::path& directory) {
  for (const std::filesystem::path& path : list(directory)) {
    const std::optional<pid_t> process = owner(path);
    if (process && !runs_elsewhere(*process)) remove_folder(path);
  }
}

}  // namespace l2l::eps

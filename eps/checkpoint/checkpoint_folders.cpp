#include "eps/checkpoint/checkpoint_folders.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <tuple>

#include "core/error_place.h"
#include "core/files.h"
#include "core/log.h"
#include "core/unfinished.h"
#include "eps/checkpoint/checkpoint_locks.h"
#include "eps/checkpoint/manifest.h"
#include "l2l/errors.h"

namespace l2l::eps {

namespace {

constexpr std::string_view kPrefix = "step-", kReplaced = ".old";

constexpr std::uint64_t kMostStep = std::uint64_t{1} << 53;

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
  if (!step || *step > kMostStep) return std::nullopt;
  return CheckpointFolder{path, *step, replaced};
}

std::filesystem::path temporary_name(const std::filesystem::path& folder) {
  return folder.parent_path() /
         ("." + folder.filename().string() + std::string(kUnfinished) + std::to_string(getpid()));
}

// Leftovers that cannot be removed cost space, not safety.
template <typename Function>
void or_warn(const char* what, Function function) {
  try {
    function();
  } catch (const Error& error) {
    log(LogLevel::warning, std::string(what) + ": " + error.what());
  }
}

// Renames the folder to a hidden name first, so that no reader sees half of it. While one reads it, it stays until the
// next save.
void discard(const std::filesystem::path& folder) {
  or_warn("an old checkpoint stays", [&] {
    std::optional<FileLock> lock = lock_to_remove(folder);
    if (!lock) return;
    const std::filesystem::path hidden = temporary_name(folder);
    move_path(folder, hidden);
    lock.reset();  // of a file that is open, NFS keeps something in its folder
    remove_folder(hidden);
  });
}

// defect(), or why this process cannot read it.
std::string defect_or_refusal(const std::filesystem::path& folder) {
  try {
    return defect(folder);
  } catch (const BadInput& error) {
    return error.what();
  }
}

[[noreturn]] void refuse_to_replace(const std::filesystem::path& folder) {
  throw Error(folder.string() + ": is being read by another program; save again when that has ended");
}

std::vector<CheckpointFolder> checkpoints_in(const std::filesystem::path& directory) {
  std::vector<CheckpointFolder> folders;
  for (const std::filesystem::path& path : list_folder(directory)) {
    if (auto folder = parse_folder(path)) folders.push_back(std::move(*folder));
  }
  std::sort(folders.begin(), folders.end(), [](const CheckpointFolder& a, const CheckpointFolder& b) {
    return std::tuple(b.step, a.replaced, a.path) < std::tuple(a.step, b.replaced, b.path);
  });
  return folders;
}

// The first of earlier-1, earlier-2, ... that is free.
std::filesystem::path earlier_folder(const std::filesystem::path& directory) {
  for (int n = 1;; ++n) {
    std::filesystem::path folder = directory / ("earlier-" + std::to_string(n));
    if (!is_there(folder)) return folder;
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
  try {
    return checkpoints_in(directory);
  } catch (const Error& error) {
    throw BadInput(error.what(), of_file(directory.string()));
  }
}

std::string defect(const std::filesystem::path& folder) {
  try {
    for (const auto& [name, file] : read_manifest(folder).files) {
      const Bytes bytes = InputFile(folder / name).bytes();
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
  if (is_there(target)) {
    if (is_there(old)) {  // a process was killed here: `target` may not be on the disk yet
      sync_folder(directory);
      discard(old);
      if (is_there(old)) refuse_to_replace(old);
    }
    const std::optional<FileLock> lock = lock_to_remove(target);
    if (!lock) refuse_to_replace(target);
    move_path(target, old);
  }
  move_path(temporary, target);
  sync_folder(directory);
  if (is_there(old)) discard(old);
  return target;
}

void prune(const std::filesystem::path& directory, const std::filesystem::path& newest, int keep) {
  or_warn("old checkpoints stay", [&] {
    int kept = 0;
    std::optional<std::uint64_t> complete;  // step of the last one counted
    for (const CheckpointFolder& folder : checkpoints_in(directory)) {
      const bool replaced = folder.replaced && complete == folder.step;
      if (kept < keep && !replaced) {
        const std::string reason = defect_or_refusal(folder.path);
        if (reason.empty()) {
          ++kept;
          complete = folder.step;
        } else {
          log(LogLevel::warning, "not counted among the checkpoints to keep: " + reason);
        }
      } else if (folder.path != newest) {
        if (replaced) sync_folder(directory);  // its successor may not be on the disk yet
        discard(folder.path);
      }
    }
  });
}

void remove_stale(const std::filesystem::path& directory, bool alone) {
  or_warn("an interrupted save stays", [&] {
    for (const std::filesystem::path& path : list_folder(directory)) {
      const bool is_step = path.filename().string().starts_with(".step-");
      const std::optional<pid_t> process = is_step ? writer_of(path) : std::nullopt;
      if (process && (alone || !runs_elsewhere(*process))) remove_folder(path);
    }
  });
}

std::filesystem::path set_aside(const std::filesystem::path& directory, std::int64_t steps) {
  if (!is_folder(directory)) return {};
  std::vector<CheckpointFolder> folders = checkpoints_in(directory);
  std::erase_if(folders, [&](const auto& folder) { return static_cast<std::int64_t>(folder.step) <= steps; });
  if (folders.empty()) return {};
  const std::filesystem::path aside = earlier_folder(directory);
  std::vector<FileLock> locks;
  for (const CheckpointFolder& folder : folders) {
    std::optional<FileLock> lock = lock_to_remove(folder.path);
    if (!lock) throw Error(folder.path.string() + ": is being read by another program; wait until that has ended");
    locks.push_back(std::move(*lock));
  }
  make_folder(aside);
  sync_folder(directory);  // or a rename could outlive the folder that it leads to
  for (const CheckpointFolder& folder : folders) move_path(folder.path, aside / folder.path.filename());
  sync_folder(aside);
  sync_folder(directory);
  return aside;
}

}  // namespace l2l::eps

#include "eps/checkpoint/checkpoint_locks.h"

#include <unistd.h>

#include <fstream>
#include <string>

#include "core/error_place.h"
#include "core/host_name.h"
#include "core/log.h"
#include "eps/checkpoint/manifest.h"
#include "l2l/errors.h"

namespace l2l::eps {
namespace {

constexpr const char* kRunLock = ".lock";

std::string shown_host() {
  const std::string name = host_name();
  return name.empty() ? "a host without a name" : name;
}

// "process 1234 on HOST", by the file's content.
std::string owner_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string host, process;
  if (!(stream >> host >> process)) return "another process";
  if (process == std::to_string(getpid())) return "another Trainer of this process";
  return "process " + process.substr(0, 20) + " on " + host.substr(0, 256);
}

[[noreturn]] void refuse(const std::filesystem::path& directory) {
  throw BadInput("checkpoint.directory " + directory.string() + ": " + owner_of(directory / kRunLock) +
                     " saves into it; wait for that run to end, or set another directory",
                 of_file(directory.string(), "checkpoint.directory"));
}

FileLock lock_directory(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / kRunLock;
  std::optional<FileLock> lock = FileLock::make(file);
  if (!lock) refuse(directory);
  if (!lock->held()) {
    log(LogLevel::warning, "checkpoint.directory " + directory.string() +
                               ": its file system has no locks; see to it that no other run saves there");
  }
  lock->write(shown_host() + " " + std::to_string(getpid()) + "\n");
  return std::move(*lock);
}

FileLock lock_to_read(const std::filesystem::path& checkpoint) {
  const std::filesystem::path manifest = checkpoint / kManifestName;
  std::optional<FileLock> lock = FileLock::take(manifest, LockKind::shared);
  if (!lock || (lock->held() && !lock->is_at(manifest))) {
    throw CorruptFile(checkpoint.string(), "is just being removed by the run that saved it");
  }
  return std::move(*lock);
}

}  // namespace

void check_unlocked(const std::filesystem::path& directory) {
  if (!FileLock::take(directory / kRunLock, LockKind::exclusive)) refuse(directory);
}

RunLock::RunLock(const std::filesystem::path& directory) : lock_(lock_directory(directory)) {}

bool RunLock::is_gone_from(const std::filesystem::path& directory) const {
  std::error_code error;
  const auto status = std::filesystem::status(directory / kRunLock, error);
  const bool known = status.type() != std::filesystem::file_type::none;  // else a file system that does not answer
  return held() && known && !lock_.is_at(directory / kRunLock);
}

ReadLock::ReadLock(const std::filesystem::path& checkpoint) : lock_(lock_to_read(checkpoint)) {}

std::optional<FileLock> lock_to_remove(const std::filesystem::path& checkpoint) {
  return FileLock::take(checkpoint / kManifestName, LockKind::exclusive);
}

}  // namespace l2l::eps

#include "eps/checkpoint/checkpoint_locks.h"

#include <unistd.h>

#include <fstream>
#include <random>
#include <string>
#include <system_error>

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

// Of this process alone: in containers, processes of one host have the same number.
const std::string& token() {
  static const std::string token = std::to_string(std::random_device()());
  return token;
}

// "process 1234 on HOST", by the file's content.
std::string owner_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string host, process, its_token;
  if (!(stream >> host >> process)) return "another process";
  stream >> its_token;
  if (its_token == token() && process == std::to_string(getpid())) return "another Trainer of this process";
  return "process " + process.substr(0, 20) + " on " + host.substr(0, 256);
}

[[noreturn]] void refuse(const std::filesystem::path& directory) {
  throw BadInput("checkpoint.directory " + directory.string() + ": " + owner_of(directory / kRunLock) +
                     " saves into it; wait for that run to end, or set another directory",
                 of_file(directory.string(), "checkpoint.directory"));
}

// Runs `take`, which locks the directory. Throws BadInput where another process has it, or nobody can tell.
template <typename Take>
FileLock locked(const std::filesystem::path& directory, const Take& take) {
  std::optional<FileLock> lock;
  try {
    lock = take(directory / kRunLock);
  } catch (const std::system_error& error) {
    throw BadInput("checkpoint.directory " + directory.string() +
                       ": cannot tell whether another run saves there: " + error.what() + "; set another directory",
                   of_file(directory.string(), "checkpoint.directory"));
  }
  if (!lock) refuse(directory);
  return std::move(*lock);
}

FileLock lock_directory(const std::filesystem::path& directory) {
  FileLock lock = locked(directory, &FileLock::make);
  if (!lock.held()) {
    log(LogLevel::warning, "checkpoint.directory " + directory.string() +
                               ": its file system has no locks; see to it that no other run saves there");
  }
  lock.write(shown_host() + " " + std::to_string(getpid()) + "\n" + token() + "\n");
  return lock;
}

FileLock lock_to_read(const std::filesystem::path& checkpoint) {
  const std::filesystem::path manifest = checkpoint / kManifestName;
  try {
    std::optional<FileLock> lock = FileLock::take(manifest, LockKind::shared);
    if (lock && (!lock->held() || lock->is_at(manifest))) return std::move(*lock);
  } catch (const std::system_error& error) {
    throw BadInput(error.what(), of_file(manifest.string()));
  }
  throw CorruptFile(checkpoint.string(), "is just being removed by the run that saved it");
}

}  // namespace

void check_unlocked(const std::filesystem::path& directory) {
  locked(directory, [](const std::filesystem::path& file) { return FileLock::take(file, LockKind::exclusive); });
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
  try {
    return FileLock::take(checkpoint / kManifestName, LockKind::exclusive);
  } catch (const std::system_error& error) {
    throw Error(error.what());
  }
}

}  // namespace l2l::eps

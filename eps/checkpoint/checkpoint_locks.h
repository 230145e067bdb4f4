// Who may use a checkpoint directory: one run that saves into it, and any number of programs that read a checkpoint.
//
// DIRECTORY/.lock is locked as long as a run may save; it holds "HOST PID" and a token of the process for messages, and
// is never removed. A reader shares a lock on the manifest of the checkpoint, which is not removed or moved meanwhile.
// Both end with the process. On file systems without locks neither has an effect.
#pragma once

#include <filesystem>
#include <optional>

#include "base/file_lock.h"

namespace l2l::eps {

// Throws BadInput, as RunLock does, where a process has `directory`, which need not be there, or its lock tells
// nothing.
void check_unlocked(const std::filesystem::path& directory);

// Held for the life of the object. Thread-bound.
class RunLock {
 public:
  // `directory` must be there. Throws BadInput naming the process that has it, or why that cannot be known.
  explicit RunLock(const std::filesystem::path& directory);
  // False where the file system has no locks: others may save there, too.
  bool held() const { return lock_.held(); }
  // Whether `directory` is no longer the one that is locked: it was moved or removed, and perhaps made again.
  bool is_gone_from(const std::filesystem::path& directory) const;

 private:
  FileLock lock_;
};

// Held for the life of the object. Thread-bound.
class ReadLock {
 public:
  // Throws CorruptFile when the checkpoint is just being removed.
  explicit ReadLock(const std::filesystem::path& checkpoint);

 private:
  FileLock lock_;
};

// Exclusive use of a checkpoint for its removal; nothing while it is being read. Throws Error where that cannot be
// known.
std::optional<FileLock> lock_to_remove(const std::filesystem::path& checkpoint);

}  // namespace l2l::eps

// The --output of a run of which only the model and the data are named, until it has begun.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/file_lock.h"

namespace l2l::tools {

// A folder that has config.toml is a run's. Before that, config.toml.unfinished is there, and locked while its process
// lives: what one that was killed has left is told from what people keep in a folder. Thread-bound.
class ChosenFolder {
 public:
  // Makes the folder, and removes what a process that was killed has left of a preparation. Throws BadInput where
  // anything else is in it, where another process prepares its run there, or where it cannot be made.
  explicit ChosenFolder(std::filesystem::path folder);
  // Unless the folder is kept, removes what the run has made there, and the folders that it has made.
  ~ChosenFolder();
  ChosenFolder(const ChosenFolder&) = delete;
  ChosenFolder& operator=(const ChosenFolder&) = delete;

  // Once, and behind all other files of the preparation. Throws Error.
  void write_config(const std::string& text);
  void keep(bool kept) { kept_ = kept; }

 private:
  // False where another process has it.
  bool take();

  const std::filesystem::path folder_, unfinished_;
  std::filesystem::path there_;  // it, or the nearest of its parents that was there before
  bool kept_ = false;
  std::optional<FileLock> lock_;
};

}  // namespace l2l::tools

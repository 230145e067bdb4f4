#include "tools/train/chosen_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <initializer_list>
#include <string_view>
#include <system_error>
#include <utility>

#include "l2l/errors.h"
#include "l2l/trainer.h"
#include "tools/output_file.h"

namespace l2l::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.toml";
constexpr const char* kUnfinished = "config.toml.unfinished";
constexpr const char* kRows = "data";  // as choose_run() names it

bool holds_only(const fs::path& folder, std::initializer_list<std::string_view> names) {
  std::error_code error;
  const bool only = std::ranges::all_of(fs::directory_iterator(folder, error), [&](const fs::directory_entry& entry) {
    return std::ranges::find(names, entry.path().filename().string()) != names.end();
  });
  return only && (!error || error == std::errc::no_such_file_or_directory);
}

// Whether a preparation may begin: nothing is there, or what another one has left.
bool is_free(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / kUnfinished, ignored)) return holds_only(folder, {});
  return holds_only(folder, {kUnfinished, kRows}) && holds_only(folder / kRows, {"train.jsonl", "validation.jsonl"});
}

[[noreturn]] void refuse(const fs::path& folder, const std::string& reason) {
  throw BadInput("--output " + folder.string() + ": " + reason);
}

[[noreturn]] void refuse_full(const fs::path& folder) {
  const fs::path config = folder / kConfig, checkpoints = folder / "checkpoints";
  std::error_code ignored;
  std::string way_out = ", or remove it";
  if (fs::exists(config, ignored)) {
    way_out = ", or continue its run by l2l-train " + config.string() + " --output " + folder.string() +
              (has_checkpoint(checkpoints) ? " --resume " + checkpoints.string() : " --resume-if-any");
  }
  refuse(folder, "is there already and not empty; name a new folder" + way_out);
}

// On the disk: a loss of power could leave an empty file else.
void synchronize(const fs::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

}  // namespace

ChosenFolder::ChosenFolder(fs::path folder)
    : folder_(std::move(folder)), unfinished_(folder_ / kUnfinished), there_(fs::absolute(folder_)) {
  check_folder(folder_, "--output");
  if (!is_free(folder_)) refuse_full(folder_);
  std::error_code error;
  while (!fs::exists(fs::symlink_status(there_, error)) && there_.has_relative_path()) there_ = there_.parent_path();
  fs::create_directories(folder_, error);
  if (error) refuse(folder_, "cannot be made: " + error.message());
  if (!take()) refuse(folder_, "another run is being prepared there; name a new folder, or remove it if there is none");
  fs::remove_all(folder_ / kRows, error);
}

ChosenFolder::~ChosenFolder() {
  if (kept_) return;
  std::error_code ignored;
  for (const char* const name : {kConfig, kRows, "metrics.jsonl", "run.json", "report.html"}) {
    fs::remove_all(folder_ / name, ignored);
  }
  fs::remove(folder_ / "checkpoints/.lock", ignored);
  fs::remove(folder_ / "checkpoints", ignored);
  fs::remove(unfinished_, ignored);
  for (fs::path made = fs::absolute(folder_); made != there_; made = made.parent_path()) fs::remove(made, ignored);
}

bool ChosenFolder::take() {
  std::error_code ignored;
  const bool was_left = fs::exists(unfinished_, ignored);
  try {
    lock_ = FileLock::make(unfinished_);
  } catch (const std::system_error& error) {
    throw BadInput(std::string("--output ") + error.what());
  }
  // Where the file system has no locks, nobody knows whether the process of one that was left still lives.
  if (!lock_ || (lock_->held() ? !lock_->is_at(unfinished_) : was_left)) return false;
  if (is_free(folder_)) return true;
  fs::remove(unfinished_, ignored);  // which this call has made: meanwhile another process has finished
  return false;
}

void ChosenFolder::write_config(const std::string& text) {
  std::error_code error;
  if (std::ofstream(unfinished_, std::ios::binary) << text << std::flush) {
    synchronize(unfinished_);
    fs::rename(unfinished_, folder_ / kConfig, error);
  } else {
    error.assign(errno, std::generic_category());
  }
  if (error) throw Error(unfinished_.string() + ": cannot be written: " + error.message());
  lock_.reset();
}

}  // namespace l2l::tools

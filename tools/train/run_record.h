// run.json of a run's folder: what l2l-report cannot know from the metrics.
//
//   {"version", "host", "machine", "device", "started": SECONDS SINCE 1970, "resumed_at": STEP (0: begun afresh),
//    "memory": {"device": [{"what", "bytes"}, ...], "host": [...], "device_bytes", "pinned_bytes", "host_bytes",
//               "allocator": as in the last line of l2l-train, when this was written},
//    "warnings": [TEXT, ...]}
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "l2l/log.h"
#include "l2l/trainer.h"

namespace l2l::tools {

// Collects the warnings of the library from its construction on, and prints them as the library would. One at a time.
class Warnings {
 public:
  Warnings();
  ~Warnings();
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  void add(LogLevel level, std::string_view message);  // from any thread
  std::vector<std::string> texts() const;              // warnings and errors, each once, at most kMost

 private:
  static constexpr std::size_t kMost = 100;

  mutable std::mutex mutex_;
  std::vector<std::string> texts_;  // guarded by mutex_
};

// Whether a file that begins so is a run.json.
bool is_record(std::string_view beginning);

// Thread-bound.
class RunRecord {
 public:
  // An empty `file` writes nothing. `completed`: steps before this process.
  RunRecord(std::filesystem::path file, const Trainer& trainer, std::int64_t completed);
  // Replaces the file whole. Throws Error.
  void write(const Warnings& warnings);

 private:
  const std::filesystem::path file_;
  nlohmann::ordered_json record_;
};

}  // namespace l2l::tools

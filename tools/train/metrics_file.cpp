#include "tools/train/metrics_file.h"

#include <cerrno>
#include <cstring>

#include "base/json.h"
#include "l2l/errors.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "tools/train/allocator_json.h"

namespace l2l::tools {
namespace {

constexpr const char* kOption = "--metrics";

// Bytes of the lines of steps 1 to `completed`; a last line that a kill cut short is not among them.
std::uintmax_t bytes_until(const std::filesystem::path& path, std::int64_t completed) {
  std::ifstream file(path, std::ios::binary);
  std::uintmax_t bytes = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const nlohmann::json json = parse_json(line);
    const bool has_step = json.is_object() && json.contains("step") && json["step"].is_number_unsigned();
    if (!has_step || json["step"].get<std::int64_t>() > completed) break;
    bytes += line.size() + 1;
  }
  return bytes;
}

// Nothing where it is no regular file. Throws BadInput where another run has it.
std::optional<FileLock> lock(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  std::optional<FileLock> lock;
  try {
    lock = FileLock::take(path, LockKind::exclusive);
  } catch (const std::system_error& error) {
    throw BadInput(std::string(kOption) + " " + error.what());
  }
  if (lock) return lock;
  throw BadInput(
      std::string(kOption) + " " + path.string() +
      ": another run is writing to it; wait for its end, or name another file, with --output another folder");
}

// What stays of an earlier file.
void prepare_file(const std::filesystem::path& path, std::int64_t completed) {
  if (completed == 0) return make_room(path, kOption, is_metrics);
  check_ours(path, kOption, is_metrics);
  std::error_code ignored, error;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  std::filesystem::resize_file(path, bytes_until(path, completed), error);
  if (error) throw BadInput(std::string(kOption) + " " + path.string() + ": " + error.message());
}

}  // namespace

MetricsFile::MetricsFile(std::filesystem::path path, std::int64_t completed) : path_(std::move(path)) {
  if (path_.empty()) return;
  check_unused(path_);
  prepare_file(path_, completed);
  std::error_code ignored;
  if (std::filesystem::is_fifo(path_, ignored)) {
    print_message(std::string(kOption) + " " + path_.string() + " is a pipe: waiting for its reader");
  }
  file_.open(path_, std::ios::app);
  if (!file_) throw BadInput(std::string(kOption) + " " + path_.string() + ": cannot be written");
  lock_ = lock(path_);
}

void MetricsFile::check_unused(const std::filesystem::path& path) { static_cast<void>(lock(path)); }

bool MetricsFile::add(const StepReport& report) { return add(to_json(report)); }

bool MetricsFile::add(std::int64_t step, const Evaluation& validation) {
  nlohmann::ordered_json line = {{"step", step}, {"validation_loss", validation.loss}};
  line["metrics"] = json_of(validation.metrics);
  return add(json_text(line));
}

bool MetricsFile::add_allocator(std::int64_t step) {
  if (path_.empty()) return true;
  const nlohmann::ordered_json use = allocator_json();
  return use.is_null() || add(json_text(nlohmann::ordered_json{{"step", step}, {"allocator", use}}));
}

bool MetricsFile::add(const std::string& line) {
  if (path_.empty()) return true;
  if (!failure_.empty()) return false;
  errno = 0;
  if (file_ << line << std::endl) return true;
  failure_ = std::string(kOption) + " " + path_.string() + ": cannot be written" +
             (errno == 0 ? "" : std::string(": ") + std::strerror(errno));
  return false;
}

}  // namespace l2l::tools

#include "tools/train/run_record.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "l2l/version.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "tools/train/allocator_json.h"

namespace l2l::tools {
namespace {

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

nlohmann::ordered_json json_of(const std::vector<ContractLine>& lines) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ContractLine& line : lines) json.push_back({{"what", line.what}, {"bytes", line.bytes}});
  return json;
}

}  // namespace

bool is_record(std::string_view beginning) {
  return beginning.starts_with("{") && beginning.find("\"resumed_at\": ") != beginning.npos;
}

Warnings::Warnings() {
  set_log_sink([this](LogLevel level, std::string_view message) { add(level, message); });
}

Warnings::~Warnings() { set_log_sink({}); }

void Warnings::add(LogLevel level, std::string_view message) {
  const char* const prefix = level == LogLevel::error ? "error: " : level == LogLevel::warning ? "warning: " : "";
  print_message(prefix + std::string(message));
  if (level == LogLevel::info) return;
  const std::lock_guard lock(mutex_);
  const bool known = std::find(texts_.begin(), texts_.end(), message) != texts_.end();
  if (!known && texts_.size() < kMost) texts_.emplace_back(message);
}

std::vector<std::string> Warnings::texts() const {
  const std::lock_guard lock(mutex_);
  return texts_;
}

RunRecord::RunRecord(std::filesystem::path file, const Trainer& trainer, std::int64_t completed)
    : file_(std::move(file)) {
  const MemoryContract& contract = trainer.contract();
  record_ = {{"version", version()},
             {"host", host_name()},
             {"machine", machine_description()},
             {"device", contract.device_description},
             {"started", static_cast<std::int64_t>(std::time(nullptr))},
             {"resumed_at", completed}};
  record_["memory"] = {{"device", json_of(contract.device)},
                       {"host", json_of(contract.host)},
                       {"device_bytes", contract.device_bytes},
                       {"pinned_bytes", contract.pinned_bytes},
                       {"host_bytes", contract.host_bytes}};
}

void RunRecord::write(const Warnings& warnings) {
  if (file_.empty()) return;
  record_["memory"]["allocator"] = allocator_json();
  record_["warnings"] = warnings.texts();
  replace_file(file_, json_text(record_, 1) + "\n");
}

}  // namespace l2l::tools

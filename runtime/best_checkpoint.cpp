#include "runtime/best_checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/json.h"
#include "core/error_place.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/log.h"
#include "eps/checkpoint/manifest.h"
#include "l2l/errors.h"

namespace l2l::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 64 << 20;
constexpr const char* kBest = "best";
const std::string kFresh = ".best.tmp-", kOld = ".best.old-";  // with the number of a process

fs::path history_of(const fs::path& directory) { return directory / "validations.json"; }

[[noreturn]] void refuse(const fs::path& file) {
  throw CorruptFile(file.string(), "has no list of validations, each [step, value]");
}

using Values = std::vector<std::pair<std::int64_t, double>>;

// Of steps up to `completed`.
Values values_in(const nlohmann::json& json, const fs::path& file, std::int64_t completed) {
  if (!json.is_array()) refuse(file);
  Values values;
  for (const nlohmann::json& each : json) {
    const bool good = each.is_array() && each.size() == 2 && each[0].is_number_unsigned() &&
                      (each[1].is_number() || each[1].is_null());
    if (!good) refuse(file);
    const auto step = each[0].get<std::int64_t>();
    if (step > completed) break;
    values.emplace_back(step, each[1].is_null() ? std::numeric_limits<double>::quiet_NaN() : each[1].get<double>());
  }
  return values;
}

// A reader sees the old file or the new one. What a kill leaves, recover() removes.
void replace(const fs::path& file, const std::string& text) {
  const fs::path fresh = file.parent_path() / (kFresh + "list-" + std::to_string(getpid()));
  OutputFile output(fresh);
  output.write(text);
  output.finish();
  move_path(fresh, file);
}

// Moves the best checkpoint of an earlier run out of the way.
void set_aside(const fs::path& directory) {
  if (!is_there(directory / kBest)) return;
  for (int i = 1;; ++i) {
    const fs::path aside = directory / ("earlier-best-" + std::to_string(i));
    if (!is_there(aside)) return move_path(directory / kBest, aside);
  }
}

// Ends what a kill has cut off in keep().
void recover(const fs::path& directory) {
  if (!is_folder(directory)) return;
  for (const fs::path& path : list_folder(directory)) {
    const std::string name = path.filename().string();
    const bool old = name.starts_with(kOld);
    if (!old && !name.starts_with(kFresh)) continue;
    if (old && !is_there(directory / kBest)) {
      move_path(path, directory / kBest);
      continue;
    }
    sync_folder(directory);  // what has replaced it may not be on the disk yet
    remove_folder(path);
  }
}

}  // namespace

BestCheckpoint::BestCheckpoint(const Options& options, std::uint64_t data_hash, std::int64_t completed, bool writes)
    : directory_(options.checkpoint.directory),
      metric_(options.checkpoint.best),
      data_(to_hex(data_hash)),
      patience_(options.run.patience),
      lower_is_better_(metric_ == "loss"),
      writes_(writes) {
  if (metric_.empty()) return;
  if (writes_) recover(directory_);
  if (completed > 0) {
    read(completed);
  } else if (writes_) {
    set_aside(directory_);
    remove_folder(history_of(directory_));
  }
}

void BestCheckpoint::read(std::int64_t completed) {
  const fs::path file = history_of(directory_);
  if (!is_there(file)) return;
  const InputFile input(file);
  if (input.bytes() > kMostBytes) throw CorruptFile(file.string(), "is too large");
  const nlohmann::json json = parse_json(input.text());
  if (json.is_array()) {  // as earlier versions wrote it
    values_ = values_in(json, file, completed);
    return;
  }
  if (!json.is_object() || !json.contains("validations")) refuse(file);
  const bool same_metric = json.value("metric", nlohmann::json()) == metric_;
  if (same_metric && json.value("data", nlohmann::json()) == data_) {
    values_ = values_in(json["validations"], file, completed);
    return;
  }
  if (!writes_) return;
  log(LogLevel::warning, file.string() + ": is of another " + (same_metric ? "set of validation data" : "metric") +
                             ", with which new values are not compared: what is best is found anew");
  set_aside(directory_);  // record() replaces the file, which other ranks may still be reading
}

bool BestCheckpoint::keeps(std::int64_t step) const {
  try {
    return eps::read_manifest(directory_ / kBest).state.step == static_cast<std::uint64_t>(step);
  } catch (const Error&) {
    return false;
  }
}

bool BestCheckpoint::has(std::int64_t step) const {
  return metric_.empty() || std::ranges::any_of(values_, [&](const auto& each) { return each.first == step; });
}

double BestCheckpoint::value_of(const Evaluation& validation) const {
  if (metric_ == "loss") return validation.loss;
  for (const auto& [name, value] : validation.metrics) {
    if (name == metric_) return value;
  }
  throw BadInput("checkpoint.best = \"" + metric_ + "\": the validation has no such metric", of_key("checkpoint.best"));
}

std::size_t BestCheckpoint::best() const {
  std::size_t found = 0;
  for (std::size_t i = 1; i < values_.size(); ++i) {
    const double so_far = values_[found].second;
    if (std::isnan(so_far) || better(values_[i].second, so_far)) found = i;
  }
  return found;
}

bool BestCheckpoint::take(std::int64_t step, const Evaluation& validation) {
  if (metric_.empty()) return false;
  const double value = value_of(validation);
  if (!values_.empty() && values_.back().first == step) values_.pop_back();  // validated again after a resume
  values_.emplace_back(step, value);
  return !std::isnan(value) && best() + 1 == values_.size();
}

void BestCheckpoint::record() const {
  if (metric_.empty() || !writes_) return;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [at, number] : values_) list.push_back({at, number});
  const nlohmann::ordered_json json = {{"metric", metric_}, {"data", data_}, {"validations", list}};
  make_folders(directory_);
  replace(history_of(directory_), json_text(json) + "\n");
}

// Links to its files, which are never changed, cost no room; where a file system has none, copies. At every moment the
// old or the new one is on the disk, whole.
void BestCheckpoint::keep(const fs::path& folder) const {
  if (!writes_) return;
  const std::string pid = std::to_string(getpid());
  const fs::path place = directory_ / kBest, fresh = directory_ / (kFresh + pid), old = directory_ / (kOld + pid);
  remove_folder(fresh);
  make_folder(fresh);
  for (const fs::path& file : list_folder(folder)) link_or_copy(file, fresh / file.filename());
  sync_folder(fresh);
  if (is_there(place)) move_path(place, old);
  move_path(fresh, place);
  sync_folder(directory_);
  remove_folder(old);
}

bool BestCheckpoint::exhausted() const {
  return patience_ > 0 && static_cast<std::int64_t>(values_.size() - best()) > patience_;
}

}  // namespace l2l::runtime

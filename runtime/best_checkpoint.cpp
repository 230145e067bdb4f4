#include "runtime/best_checkpoint.h"

#include <unistd.h>

#include <cmath>
#include <limits>

#include "base/json.h"
#include "core/error_place.h"
#include "core/files.h"
#include "l2l/errors.h"

namespace l2l::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 64 << 20;

fs::path history_of(const fs::path& directory) { return directory / "validations.json"; }

// Of steps up to `completed`.
std::vector<std::pair<std::int64_t, double>> read_history(const fs::path& file, std::int64_t completed) {
  std::vector<std::pair<std::int64_t, double>> values;
  std::error_code error;
  if (!fs::exists(file, error)) return values;
  if (fs::file_size(file, error) > kMostBytes || error) throw CorruptFile(file.string(), "is too large");
  const nlohmann::json json = parse_json(InputFile(file).text());
  if (!json.is_array()) throw CorruptFile(file.string(), "is no array of [step, value]");
  for (const nlohmann::json& each : json) {
    const bool good = each.is_array() && each.size() == 2 && each[0].is_number_unsigned() &&
                      (each[1].is_number() || each[1].is_null());
    if (!good) throw CorruptFile(file.string(), "has an entry that is no [step, value]");
    const auto step = each[0].get<std::int64_t>();
    if (step > completed) break;
    values.emplace_back(step, each[1].is_null() ? std::numeric_limits<double>::quiet_NaN() : each[1].get<double>());
  }
  return values;
}

// A reader sees the old file or the new one.
void replace(const fs::path& file, const std::string& text) {
  const fs::path fresh = file.string() + ".tmp-" + std::to_string(getpid());
  OutputFile output(fresh);
  output.write(text);
  output.finish();
  move_folder(fresh, file);
}

// Moves what an earlier run left out of the way.
void set_aside(const fs::path& directory) {
  std::error_code ignored;
  fs::remove(history_of(directory), ignored);
  if (!fs::exists(directory / "best", ignored)) return;
  for (int i = 1;; ++i) {
    const fs::path aside = directory / ("earlier-best-" + std::to_string(i));
    if (!fs::exists(aside, ignored)) return move_folder(directory / "best", aside);
  }
}

}  // namespace

BestCheckpoint::BestCheckpoint(const Options& options, std::int64_t completed, bool writes)
    : directory_(options.checkpoint.directory),
      metric_(options.checkpoint.best),
      patience_(options.run.patience),
      lower_is_better_(metric_ == "loss"),
      writes_(writes) {
  if (metric_.empty()) return;
  if (completed == 0) {
    if (writes_) set_aside(directory_);
  } else {
    values_ = read_history(history_of(directory_), completed);
  }
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
  if (writes_) write_history();
  return !std::isnan(value) && best() + 1 == values_.size();
}

void BestCheckpoint::write_history() const {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const auto& [at, number] : values_) json.push_back({at, number});
  std::error_code ignored;
  fs::create_directories(directory_, ignored);
  replace(history_of(directory_), json_text(json) + "\n");
}

// Links to its files, which are never changed, cost no room; where a file system has none, copies.
void BestCheckpoint::keep(const fs::path& folder) const {
  if (!writes_) return;
  const std::string pid = std::to_string(getpid());
  const fs::path place = directory_ / "best", fresh = directory_ / (".best.tmp-" + pid),
                 old = directory_ / (".best.old-" + pid);
  std::error_code error;
  fs::remove_all(fresh, error);
  fs::create_directory(fresh, error);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const fs::path to = fresh / entry.path().filename();
    fs::create_hard_link(entry.path(), to, error);
    if (error) fs::copy_file(entry.path(), to, error);
    if (error) throw Error(to.string() + ": cannot be written: " + error.message());
  }
  if (fs::exists(place)) move_folder(place, old);
  move_folder(fresh, place);
  fs::remove_all(old, error);
}

bool BestCheckpoint::exhausted() const {
  return patience_ > 0 && static_cast<std::int64_t>(values_.size() - best()) > patience_;
}

}  // namespace l2l::runtime

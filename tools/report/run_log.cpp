#include "tools/report/run_log.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

#include "base/json.h"
#include "l2l/errors.h"

namespace l2l::tools {
namespace {

constexpr std::size_t kMostLine = 1 << 20, kMostText = 1 << 20, kMostFields = 64;

// The next line, without what is beyond kMostLine; false at the end. A last line without its end counts.
bool next_line(std::streambuf& file, std::string& line, bool& whole) {
  line.clear();
  whole = true;
  for (int c; (c = file.sbumpc()) != std::char_traits<char>::eof();) {
    if (c == '\n') return true;
    line.size() < kMostLine ? line.push_back(static_cast<char>(c)) : void(whole = false);
  }
  return !line.empty();
}

void take(RunLog& log, const std::string& name, double step, const nlohmann::json& value) {
  if (!value.is_number() && !value.is_boolean()) return;
  const double number = value.is_boolean() ? (value.get<bool>() ? 1 : 0) : value.get<double>();
  if (!std::isfinite(number)) return;
  if (log.series.size() >= kMostFields && log.series.count(name) == 0) return;
  log.series[name].add(step, number);
}

void take_roles(RunLog& log, double step, const nlohmann::json& allocator) {
  if (!allocator.is_object() || !allocator.contains("roles") || !allocator["roles"].is_object()) return;
  for (const auto& [role, use] : allocator["roles"].items()) {
    if (use.is_object() && use.contains("allocated")) take(log, "allocator." + role, step, use["allocated"]);
  }
}

void take(RunLog& log, const nlohmann::json& line) {
  const double step = line["step"].get<double>();
  for (const auto& [name, value] : line.items()) {
    if (name == "step") continue;
    if (name == "allocator") take_roles(log, step, value);
    if (name != "metrics" || !value.is_object()) {
      take(log, name, step, value);
      continue;
    }
    for (const auto& [metric, number] : value.items()) take(log, "metrics." + metric, step, number);
  }
}

std::string read_text(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return {};
  std::ifstream file(path, std::ios::binary);
  std::string text(std::min<std::uintmax_t>(size, kMostText), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

std::vector<RunFacts::Memory> memory_of(const nlohmann::json& lines) {
  std::vector<RunFacts::Memory> memory;
  for (const nlohmann::json& line : lines) {
    if (!line.is_object() || !line.contains("what") || !line["what"].is_string()) continue;
    if (!line.contains("bytes") || !line["bytes"].is_number()) continue;
    memory.push_back({line["what"].get<std::string>(), line["bytes"].get<double>()});
  }
  return memory;
}

// What is missing or of another kind is left out.
RunFacts read_facts(const std::filesystem::path& path) {
  RunFacts facts;
  const nlohmann::json json = parse_json(read_text(path));
  if (!json.is_object()) return facts;
  for (const auto& [key, label] :
       {std::pair("host", "host"), {"machine", "processor"}, {"device", "device"}, {"version", "L2L"}}) {
    if (json.contains(key) && json[key].is_string()) facts.machine.emplace_back(label, json[key].get<std::string>());
  }
  const nlohmann::json& memory = json.contains("memory") ? json["memory"] : nlohmann::json();
  if (memory.is_object()) {
    if (memory.contains("device")) facts.device = memory_of(memory["device"]);
    if (memory.contains("host")) facts.host = memory_of(memory["host"]);
  }
  if (json.contains("warnings") && json["warnings"].is_array()) {
    for (const nlohmann::json& text : json["warnings"]) {
      if (text.is_string()) facts.warnings.push_back(text.get<std::string>());
    }
  }
  return facts;
}

}  // namespace

void Series::add(double step, double value) {
  last_ = value;
  steps_ += step;
  values_ += value;
  if (++open_ == each_) close();
  if (points_.size() < kMost) return;
  for (std::size_t i = 0; i < kMost / 2; ++i) {
    const auto &a = points_[2 * i], &b = points_[2 * i + 1];
    points_[i] = {(a.first + b.first) / 2, (a.second + b.second) / 2};
  }
  points_.resize(kMost / 2);
  each_ *= 2;
}

void Series::close() {
  const auto count = static_cast<double>(open_);
  points_.emplace_back(steps_ / count, values_ / count);
  steps_ = values_ = 0;
  open_ = 0;
}

std::vector<std::pair<double, double>> Series::points() const {
  Series all = *this;
  if (all.open_ > 0) all.close();
  return all.points_;
}

const RunLog& RunLogReader::read() {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path_, ignored);
  const std::filesystem::path metrics = folder ? path_ / "metrics.jsonl" : path_;
  std::ifstream file;
  if (std::filesystem::is_regular_file(metrics, ignored)) file.open(metrics, std::ios::binary);
  if (!file.is_open()) {
    throw BadInput(metrics.string() + ": is no file that can be read; name one that --metrics wrote, or its directory");
  }
  if (const std::streamoff bytes = file.seekg(0, std::ios::end).tellg(); bytes < read_) {
    log_ = {};  // cut off since
    read_ = 0;
  }
  log_.name = folder ? std::filesystem::absolute(path_).lexically_normal().string() : path_.string();
  if (folder) {
    log_.config = read_text(path_ / "config.toml");
    log_.facts = read_facts(path_ / "run.json");
  }
  file.seekg(read_);
  std::string line;
  try {
    for (bool whole = true; next_line(*file.rdbuf(), line, whole);) {
      ++log_.lines;
      const nlohmann::json json = whole ? parse_json(line) : nlohmann::json();
      const bool good = json.is_object() && json.contains("step") && json["step"].is_number_unsigned();
      good ? take(log_, json) : void(++log_.unread);
    }
  } catch (const std::ios_base::failure& error) {
    log_ = {};
    read_ = 0;
    throw Error(metrics.string() + ": cannot be read: " + error.what());
  }
  read_ = file.tellg();
  if (log_.lines > 0 && log_.unread == log_.lines) {
    throw BadInput(metrics.string() + ": no line of it is one that --metrics wrote, an object with \"step\"");
  }
  return log_;
}

}  // namespace l2l::tools

#include "tools/metrics_file.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "core/json.h"

namespace l2l::tools {
namespace {

// Lines of steps 1 to `completed`; a last line that a kill cut short is not among them.
std::string lines_until(const std::filesystem::path& path, std::int64_t completed) {
  std::ifstream file(path);
  std::string kept;
  for (std::string line; completed > 0 && std::getline(file, line);) {
    const nlohmann::json json = parse_json(line);
    if (!json.is_object() || json.value("step", completed + 1) > completed) break;
    kept += line + "\n";
  }
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(std::filesystem::path path, std::int64_t completed) : path_(std::move(path)) {
  if (path_.empty()) return;
  const std::string kept = lines_until(path_, completed);
  file_.open(path_, std::ios::trunc);
  if (!(file_ << kept << std::flush)) throw BadInput("--metrics " + path_.string() + ": cannot be written");
}

bool MetricsFile::add(const StepReport& report) {
  if (path_.empty()) return true;
  errno = 0;
  if (file_ << to_json(report) << std::endl) return true;
  failure_ = "--metrics " + path_.string() + ": cannot be written" +
             (errno == 0 ? "" : std::string(": ") + std::strerror(errno));
  return false;
}

}  // namespace l2l::tools

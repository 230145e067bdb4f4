#include "runtime/tuning/calibration.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <span>
#include <utility>

#include "base/file_behind.h"
#include "base/json.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/workers.h"
#include "l2l/errors.h"
#include "l2l/trainer.h"
#include "l2l/version.h"

namespace l2l::runtime {
namespace {

using Json = nlohmann::json;
using Values = std::map<std::string, double, std::less<>>;
using Machines = std::map<std::string, Values>;

constexpr const char* kFormat = "l2l-calibration";
constexpr int kVersion = 1;
constexpr std::uintmax_t kLargestFile = 16 << 20;

// The value of the first line of /proc/cpuinfo that begins with `field`; empty when there is none.
std::string processor(std::string_view field) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with(field) && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

// The widest that arithmetic here makes use of.
std::string instruction_set() {
  const std::string flags = " " + processor("flags") + " ";
  std::string found;
  for (const char* const flag : {"avx2", "avx512f", "avx512_bf16", "amx_bf16"}) {
    if (flags.find(std::string(" ") + flag + " ") != std::string::npos) found += std::string(" ") + flag;
  }
  return found.empty() ? " baseline" : found;
}

bool is_figure(double value) { return std::isfinite(value) && value > 0; }

struct Content {
  Machines machines;
  KernelChoices kernels;
};

// `what`: the values of the objects in it. Nothing where there is none.
template <typename Value>
Value member(const Json& json, const std::string& name, const char* what) {
  const auto found = json.find(name);
  if (found == json.end()) return {};
  try {
    return found->get<Value>();
  } catch (const Json::exception&) {
    throw Error("\"" + name + "\" is no object of objects of " + what);
  }
}

// Throws an exception that says what is wrong.
Content parse(const std::string& text) {
  const Json json = parse_json(text);
  if (!json.is_object()) throw Error("not a JSON object in UTF-8");
  const auto has = [&](const char* name, const Json& value) { return json.contains(name) && json[name] == value; };
  if (!has("format", kFormat)) throw Error("not a calibration");
  if (!has("version", kVersion)) throw Error("of another version");
  if (!json.contains("machines")) throw Error("\"machines\" is missing");
  Machines machines = member<Machines>(json, "machines", "numbers");
  for (const auto& [machine, values] : machines) {
    for (const auto& [name, value] : values) {
      if (!is_figure(value)) throw Error("\"" + name + "\" is not a number above 0");
    }
  }
  return {std::move(machines), member<KernelChoices>(json, "kernel_choices", "texts")};
}

// Whether it is a file that is empty or begins as a calibration does, be it damaged after that.
bool is_ours(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::string beginning(64, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  file.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  beginning.resize(static_cast<std::size_t>(file.gcount()));
  return beginning.empty() || beginning.find(kFormat) != std::string::npos;
}

// Nothing of a file that is not there or damaged, of which it warns if asked to.
Content read(const std::filesystem::path& path, bool warn) {
  if (path.empty()) return {};
  try {
    if (!is_there(path)) return {};
    const InputFile file(path);
    if (file.bytes() > kLargestFile) throw Error("larger than 16 MiB");
    return parse(file.text());
  } catch (const std::exception& error) {
    if (warn) {
      const char* const then = is_ours(path) ? "; ignored, and written anew by the next measurement"
                                             : "; left as it is: set L2L_CALIBRATION to another file";
      log(LogLevel::warning, "calibration " + path.string() + " cannot be read: " + error.what() + then);
    }
    return {};
  }
}

// Whole or not at all. What was not written here stays: another file, or a device, over which a superuser could rename
// one.
void replace(const std::filesystem::path& name, const std::string& text) {
  const std::filesystem::path path = file_behind(name);
  if (is_there(path) && !is_ours(path)) throw Error("is no calibration");
  std::filesystem::create_directories(path.parent_path());
  const FileBeside beside(path);
  const bool written = static_cast<bool>(std::ofstream(beside.path(), std::ios::binary) << text << std::flush);
  if (!written || beside.take_place()) throw Error("cannot be written");
}

}  // namespace

std::string memory_bandwidth(int threads) {
  return "memory, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

std::string link_bandwidth(const std::string& device, bool to_device) {
  return (to_device ? "link h2d, " : "link d2h, ") + device;
}

std::string hash_of(const std::string& text) {
  Hash64 hash;
  hash.update(std::as_bytes(std::span(text)));
  return to_hex(hash.value());
}

std::string machine_key() {
  const std::string model = processor("model name");
  return (model.empty() ? "processor of unknown model" : model) + ", " + std::to_string(available_cores()) + " cores," +
         instruction_set() + ", L2L " L2L_VERSION;
}

std::filesystem::path calibration_file() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::filesystem::path(value != nullptr ? value : "");
  };
  if (const std::filesystem::path file = variable("L2L_CALIBRATION"); !file.empty()) return file;
  const std::filesystem::path name = "l2l/machine-" + hash_of(machine_key()) + ".json";
  if (const std::filesystem::path cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache / name;
  const std::filesystem::path home = variable("HOME");
  return home.empty() ? home : home / ".cache" / name;
}

Calibration::Calibration(std::filesystem::path file, std::string machine)
    : file_(std::move(file)), machine_(std::move(machine)) {
  Content content = read(file_, /*warn=*/true);
  values_ = std::move(content.machines[machine_]);
  kernels_ = std::move(content.kernels);
}

std::optional<double> Calibration::find(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  used_.insert(found->first);
  return found->second;
}

void Calibration::set(const std::string& name, double value) {
  if (!is_figure(value)) {
    throw Error("calibration: " + name + " is " + std::to_string(value) + ", not above 0");
  }
  values_[name] = changed_[name] = value;
  used_.insert(name);
}

void Calibration::set_kernel_choices(const KernelChoices& of_devices) {
  for (const auto& [device, kernels] : of_devices) {
    if (kernels_[device] != kernels) kernels_[device] = changed_kernels_[device] = kernels;
  }
}

void Calibration::save_now_and_then() {
  constexpr std::chrono::milliseconds kBetween{200};
  if (std::chrono::steady_clock::now() - saved_ > kBetween) write(/*all=*/true);
}

void Calibration::save() { write(/*all=*/false); }

void Calibration::write(bool all) {
  saved_ = std::chrono::steady_clock::now();
  if ((changed_.empty() && changed_kernels_.empty()) || file_.empty()) return;
  try {
    Content content = read(file_, /*warn=*/false);
    Values& figures = content.machines[machine_];
    if (!all && !changed_.empty() && figures.size() + changed_.size() > kMostFigures) {
      std::erase_if(figures, [&](const auto& figure) { return !used_.contains(figure.first); });
    }
    for (const auto& [name, value] : changed_) figures[name] = value;
    for (const auto& [device, kernels] : changed_kernels_) content.kernels[device] = kernels;
    Json json = {{"format", kFormat}, {"version", kVersion}, {"machines", content.machines}};
    if (!content.kernels.empty()) json["kernel_choices"] = content.kernels;
    replace(file_, json_text(json, 1) + "\n");
    changed_.clear();
    changed_kernels_.clear();
  } catch (const std::exception& error) {
    log(LogLevel::warning, "calibration " + file_.string() + ": " + error.what() +
                               "; what was measured is not kept: set L2L_CALIBRATION to a file that can be written");
  }
}

}  // namespace l2l::runtime

std::string l2l::machine_description() { return runtime::machine_key(); }

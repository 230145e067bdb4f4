#include "tools/bench/benches.h"

#include <fstream>
#include <iostream>
#include <iterator>

#include "base/json.h"
#include "core/files.h"
#include "runtime/options/architecture_defaults.h"
#include "tools/bench/measured_run.h"
#include "tools/output_file.h"

namespace l2l::tools {
namespace {

constexpr double kLargest = 1e15;  // bytes per second, nanoseconds: far below what overflows

double number(const nlohmann::json& value, const std::string& field) {
  if (value.is_number() && value.get<double>() >= 0 && value.get<double>() <= kLargest) return value.get<double>();
  throw BadInput(field + ": must be a number from 0 to 1e15, is " + json_text(value));
}

std::chrono::nanoseconds microseconds(const nlohmann::json& value, const std::string& field) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(1e3 * number(value, field)));
}

void set(device::PaceTable& table, const std::string& key, const nlohmann::json& value, const std::string& field) {
  if (key == "h2d_bandwidth") {
    table.h2d_bandwidth = static_cast<Bytes>(number(value, field));
  } else if (key == "d2h_bandwidth") {
    table.d2h_bandwidth = static_cast<Bytes>(number(value, field));
  } else if (key == "peer_bandwidth") {
    table.peer_bandwidth = static_cast<Bytes>(number(value, field));
  } else if (key == "other_us") {
    table.other = microseconds(value, field);
  } else if (key == "launches_us" && value.is_object()) {
    for (const auto& [program, us] : value.items()) table.launches[program] = microseconds(us, field + "." + program);
  } else {
    throw BadInput(field +
                   ": unknown; there are h2d_bandwidth, d2h_bandwidth, peer_bandwidth, launches_us (an object) and "
                   "other_us");
  }
}

// Reads {"h2d_bandwidth": bytes per second, "d2h_bandwidth": ..., "peer_bandwidth": ..., "launches_us": {"block": 4000,
// ...}, "other_us": 0}.
device::PaceTable read_pace(const std::string& file) {
  refuse_special(file);
  std::ifstream stream(file);
  if (!stream) throw BadInput("--pace " + file + ": cannot be read");
  const nlohmann::json json = parse_json(std::string(std::istreambuf_iterator<char>(stream), {}));
  if (!json.is_object()) throw BadInput("--pace " + file + ": is not a JSON object");
  device::PaceTable table;
  for (const auto& [key, value] : json.items()) set(table, key, value, "--pace " + file + ": " + key);
  return table;
}

}  // namespace

int bench_schedule(const Options& options, const ScheduleArguments& arguments, bool json) {
  MeasuredSettings settings{options, {}, !arguments.serial};
  if (!arguments.pace.empty()) {
    settings.paced = read_pace(arguments.pace);
    // Its times are those of the table: there is nothing to be measured.
    if (!runtime::is_set(options, "recompute.policy")) settings.options.recompute.policy = "full";
  }
  make_room(arguments.trace, "--trace", is_trace);
  const Measurement result = measure(settings, /*warm_up=*/2, arguments.steps, arguments.trace);
  std::cout << (json ? result.schedule.json() + "\n" : result.schedule.table()) << std::flush;
  return kSuccess;
}

}  // namespace l2l::tools

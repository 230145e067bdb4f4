#include "tools/bench/benches.h"

#include <cstdio>
#include <iostream>

#include "base/json.h"
#include "tools/bench/schedule_cases.h"

namespace l2l::tools {
namespace {

constexpr double kShare = 0.6;  // bytes, both ways added up, of compute

MeasuredSettings host_case() {
  Options options;
  options.precision.compute = "fp32";
  options.model = {.layers = 8, .hidden = 256, .heads = 4, .sequence = 128};
  options.batch = {.micro_batch = 2, .micro_batches = 4};
  options.transfer.stash = "host";
  options.recompute.policy = "full";
  return {options, {}, true};
}

struct Overlap {
  const char* device;
  double free_ms, compute_ms, bound_ms, step_ms, serial_ms;
};

MeasuredSettings serial(MeasuredSettings settings) {
  settings.overlap = false;
  return settings;
}

Overlap measure(const char* device, const MeasuredSettings& settings) {
  const Measurement free_link = measure_in_turn({settings})[0];
  const MeasuredSettings limited = with_link_share(settings, free_link, kShare);
  const std::vector<Measurement> sides = measure_in_turn({limited, serial(limited)});
  return {device,
          free_link.schedule.step_ms,
          compute_ms(sides[0]),
          sides[0].schedule.bound_ms(),
          sides[0].schedule.step_ms,
          sides[1].schedule.step_ms};
}

nlohmann::ordered_json to_json(const Overlap& result) {
  return {{"device", result.device},
          {"step_ms_free_link", result.free_ms},
          {"compute_ms", result.compute_ms},
          {"bound_ms", result.bound_ms},
          {"step_ms", result.step_ms},
          {"step_to_bound", result.step_ms / result.bound_ms},
          {"step_ms_without_overlap", result.serial_ms},
          {"without_overlap_to_step", result.serial_ms / result.step_ms}};
}

void print(const Overlap& result) {
  std::printf("%-7s %12.1f %12.1f %12.1f %12.1f %12.3f %16.1f %8.3f\n", result.device, result.free_ms,
              result.compute_ms, result.bound_ms, result.step_ms, result.step_ms / result.bound_ms, result.serial_ms,
              result.serial_ms / result.step_ms);
  std::fflush(stdout);
}

}  // namespace

int bench_overlap(bool json) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!json) {
    std::printf("All bytes of a step, both ways added up, take %.1f of its compute. Steps in ms, medians.\n", kShare);
    std::printf("%-7s %12s %12s %12s %12s %12s %16s %8s\n", "device", "free link", "compute", "bound", "step",
                "step/bound", "without overlap", "ratio");
  }
  for (const auto& [device, settings] : {std::pair{"paced", paced_overlap_case()}, std::pair{"host", host_case()}}) {
    const Overlap result = measure(device, settings);
    rows.push_back(to_json(result));
    if (!json) print(result);
  }
  if (json) std::cout << json_text(rows) << std::endl;
  return kSuccess;
}

}  // namespace l2l::tools

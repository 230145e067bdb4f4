#include <cstdio>
#include <iostream>

#include "base/json.h"
#include "tools/bench/benches.h"
#include "tools/bench/measured_ranks.h"
#include "tools/bench/schedule_cases.h"

namespace l2l::tools {
namespace {

constexpr double kShare = 0.6;  // bytes each way, of the step without a network
constexpr int kWarmUp = 2, kSteps = 7;

}  // namespace

int bench_ranks(bool json) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!json) {
    std::printf("Bytes of a step take %.1f of its compute on the network, each way. Steps in ms, medians.\n", kShare);
    std::printf("%6s %14s %12s %12s %12s\n", "ranks", "free network", "step", "step/bound", "MB each way");
  }
  const MeasuredSettings settings = paced_overlap_case();
  for (const int ranks : {2, 4}) {
    const RanksMeasurement free_network = measure_ranks(settings, ranks, 0, kWarmUp, kSteps);
    const auto bandwidth =
        static_cast<Bytes>(1e3 * static_cast<double>(free_network.sent_bytes) / (kShare * free_network.step_ms));
    const RanksMeasurement limited = measure_ranks(settings, ranks, bandwidth, kWarmUp, kSteps);
    const double ratio = limited.step_ms / free_network.step_ms, mb = static_cast<double>(limited.sent_bytes) * 1e-6;
    rows.push_back({{"ranks", ranks},
                    {"step_ms_free_network", free_network.step_ms},
                    {"step_ms", limited.step_ms},
                    {"step_to_bound", ratio},
                    {"sent_bytes", limited.sent_bytes}});
    if (!json)
      std::printf("%6d %14.1f %12.1f %12.3f %12.2f\n", ranks, free_network.step_ms, limited.step_ms, ratio, mb);
  }
  if (json) std::cout << json_text(rows) << std::endl;
  return kSuccess;
}

}  // namespace l2l::tools

#include <cstdio>
#include <functional>
#include <iostream>

#include "base/json.h"
#include "l2l/trainer.h"
#include "tools/bench/benches.h"
#include "tools/bench/measured_ranks.h"
#include "tools/bench/schedule_cases.h"

namespace l2l::tools {
namespace {

constexpr double kShares[] = {0.6, 1.5};  // bytes of a step, each way, of the step without a network
constexpr int kWarmUp = 2, kSteps = 7;

// Of ranks with a paced device each, over a network with so many bytes per second.
using Measure = std::function<RanksMeasurement(Bytes bandwidth)>;

class Table {
 public:
  // Only one of several processes says anything.
  Table(bool json, bool silent) : json_(json), silent_(silent) {
    if (json_ || silent_) return;
    std::printf("Steps in ms, medians. Network: its bytes, each way, over the step without a network.\n");
    std::printf("%6s %9s %14s %10s %8s %11s %20s %14s\n", "ranks", "network", "free network", "step", "ratio",
                "predicted", "predicted/measured", "MB each way");
  }

  void measure(int ranks, const MeasuredSettings& settings, const Measure& measure) {
    const RanksMeasurement free_network = measure(0);
    for (const double share : kShares) {
      const auto bandwidth =
          static_cast<Bytes>(1e3 * static_cast<double>(free_network.sent_bytes) / (share * free_network.step_ms));
      const RanksMeasurement limited = measure(bandwidth);
      if (!silent_) add(ranks, share, free_network, limited, predict_ranks(settings, ranks, bandwidth, calibration_));
    }
  }

  void finish() const {
    if (json_ && !silent_) std::cout << json_text(rows_) << std::endl;
  }

 private:
  void add(int ranks, double share, const RanksMeasurement& free_network, const RanksMeasurement& limited,
           double predicted) {
    const double ratio = limited.step_ms / free_network.step_ms, mb = static_cast<double>(limited.sent_bytes) * 1e-6;
    rows_.push_back({{"ranks", ranks},
                     {"network_share", share},
                     {"step_ms_free_network", free_network.step_ms},
                     {"step_ms", limited.step_ms},
                     {"step_to_bound", ratio},
                     {"predicted_ms", predicted},
                     {"predicted_to_measured", predicted / limited.step_ms},
                     {"sent_bytes", limited.sent_bytes}});
    if (json_) return;
    std::printf("%6d %9.2f %14.1f %10.1f %8.3f %11.1f %20.3f %14.2f\n", ranks, share, free_network.step_ms,
                limited.step_ms, ratio, predicted, predicted / limited.step_ms, mb);
  }

  const bool json_, silent_;
  runtime::Calibration calibration_{std::filesystem::path(), "this run"};
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

}  // namespace

int bench_ranks(bool json) {
  const MeasuredSettings settings = paced_overlap_case();
  if (launched_processes() > 1) {
    const std::unique_ptr<collectives::Transport> world = collectives::open_mpi();
    Table table(json, world->rank() > 0);
    table.measure(world->size(), settings,
                  [&](Bytes bandwidth) { return measure_ranks(settings, *world, bandwidth, kWarmUp, kSteps); });
    table.finish();
    return kSuccess;
  }
  Table table(json, /*silent=*/false);
  for (const int ranks : {2, 4}) {
    table.measure(ranks, settings,
                  [&](Bytes bandwidth) { return measure_ranks(settings, ranks, bandwidth, kWarmUp, kSteps); });
  }
  table.finish();
  return kSuccess;
}

}  // namespace l2l::tools

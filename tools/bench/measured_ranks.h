// Steps of ranks, each with a paced device, over a network with a bandwidth, and what is predicted for them.
#pragma once

#include "runtime/tuning/calibration.h"
#include "tools/bench/measured_run.h"

namespace l2l::tools {

struct RanksMeasurement {
  double step_ms = 0;    // median of all ranks
  Bytes sent_bytes = 0;  // by a rank in a step, the mean of all; as many are received
};

// `settings`: of each rank, with its own share of the minibatch. `bandwidth`: of the network, each way, in bytes per
// second; 0: exchanges take no time. Runs `warm_up` steps (at least 1), then `steps` that count. Ranks are threads of
// this process.
RanksMeasurement measure_ranks(const MeasuredSettings& settings, int ranks, Bytes bandwidth, int warm_up, int steps);
// The same of the processes of `world`, which all call it.
RanksMeasurement measure_ranks(const MeasuredSettings& settings, collectives::Transport& world, Bytes bandwidth,
                               int warm_up, int steps);

// Milliseconds of such a step, by pieces that are measured now, unless `calibration` has them.
double predict_ranks(const MeasuredSettings& settings, int ranks, Bytes bandwidth, runtime::Calibration& calibration);

}  // namespace l2l::tools

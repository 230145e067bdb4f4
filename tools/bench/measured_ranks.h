// Steps of ranks that are threads of this process, each with a paced device, over a network with a bandwidth.
#pragma once

#include "tools/bench/measured_run.h"

namespace l2l::tools {

struct RanksMeasurement {
  double step_ms = 0;    // median
  Bytes sent_bytes = 0;  // by a rank in a step, the mean of all; as many are received
  double network_ms(double bandwidth) const { return 1e3 * static_cast<double>(sent_bytes) / bandwidth; }
};

// `settings`: of each rank, with its own share of the minibatch. `bandwidth`: of the network, each way, in bytes per
// second; 0: exchanges take no time. Runs `warm_up` steps (at least 1), then `steps` that count.
RanksMeasurement measure_ranks(const MeasuredSettings& settings, int ranks, Bytes bandwidth, int warm_up, int steps);

}  // namespace l2l::tools

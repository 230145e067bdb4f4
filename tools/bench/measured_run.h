// Steps of a config under a trace, on the device that it names or on a paced one: what the benchmarks of schedules and
// the test of the overlap law run. Tokens are drawn, no data is read.
#pragma once

#include <optional>

#include "device/paced/paced_device.h"
#include "runtime/engine.h"
#include "tools/bench/schedule_report.h"

namespace l2l::tools {

struct MeasuredSettings {
  Options options;                         // its data is ignored
  std::optional<device::PaceTable> paced;  // a paced device in place of the one that the options name
  bool overlap = true;                     // false: one thing at a time on the device; of ranks, one step at a time
};

// What a step's costs follow from, beside times.
struct ModelSizes {
  int blocks = 0, microbatches = 0;
  Bytes block_wire = 0, block_gradients = 0;  // as they cross the link
  Bytes end_wires = 0, end_gradients = 0;     // of embedding and head together
  Bytes activation = 0;                       // of one microbatch
};

struct Measurement {
  ScheduleReport schedule;
  ModelSizes sizes;
  double samples_per_second = 0;  // sequences, by the median step
  Bytes device_bytes = 0;
  Bytes h2d_bytes = 0, d2h_bytes = 0;  // of one step
};

// Runs `warm_up` steps (at least 1), then `steps` that count, and writes the timeline of them all to `trace_file`, if
// it is given, as --trace does. Throws as RunPlan and Engine do, and Error naming the file.
Measurement measure(const MeasuredSettings& settings, int warm_up, int steps,
                    const std::filesystem::path& trace_file = {});

}  // namespace l2l::tools

// l2l-bench schedule CONFIG: where the time of a step goes, visit by visit.
#pragma once

#include <optional>
#include <string>

#include "tools/bench/measured_run.h"

namespace l2l::tools {

struct ScheduleArguments {
  Options options;
  std::string pace;  // file of a paced device's table; empty: the device that the options name
  bool serial = false;
  int steps = 5;
  std::string trace;  // file for the timeline; empty: none
};

// Prints a table, or one JSON object. Returns the exit status. Throws BadInput naming file and field.
int bench_schedule(const ScheduleArguments& arguments, bool json);

// Reads {"h2d_bandwidth": bytes per second, "d2h_bandwidth": ..., "launches_us": {"block": 4000, ...}, "other_us": 0}.
device::PaceTable read_pace(const std::string& file);

}  // namespace l2l::tools

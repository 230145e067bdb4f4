#include "tools/bench/benches.h"

#include <cstdio>
#include <iostream>

#include "base/json.h"
#include "tools/bench/schedule_cases.h"

namespace l2l::tools {
namespace {

// Of the host's work in a step (copies, sums, norms, updates) to the device's. Above 1 it cannot hide, with clipping or
// without.
constexpr double kShares[] = {0.125, 0.25, 0.5, 1.0, 8.0};
constexpr int kBlocks = 12, kMicrobatches = 4;

// A device that takes no time: what is left is the host's work.
MeasuredSettings unpaced() {
  Options options;
  options.precision.compute = "fp32";
  options.model = {.layers = kBlocks, .hidden = 256, .heads = 4, .sequence = 16};
  options.batch = {.micro_batch = 1, .micro_batches = kMicrobatches};
  options.transfer.stash = "host";
  return {options, device::PaceTable{}, true};
}

// A balance as on a GPU: forward and backward of a block (1 : 3) take as long as its wire on its two ways to the
// device. `compute_ms`: of all blocks.
MeasuredSettings paced(const ModelSizes& sizes, double compute_ms) {
  const double block_ms = compute_ms / kBlocks;
  MeasuredSettings settings = with_wire_time(unpaced(), sizes, block_ms / 2);
  const std::chrono::nanoseconds forward(static_cast<std::int64_t>(1e6 * block_ms / (4 * kMicrobatches)));
  settings.paced->launches = {{"block", forward}, {"block backward", 3 * forward}, {"head backward", forward}};
  return settings;
}

// Gradients of a paced device are zeros: such a norm is one that scales them nevertheless.
MeasuredSettings with_clip(MeasuredSettings settings, const char* clip) {
  settings.options.optimizer.clip = clip;
  settings.options.optimizer.max_norm = 1e-7;
  return settings;
}

struct Result {
  double share, none_ms, global_ms;
};

Result measure(double share, double host_ms, const ModelSizes& sizes) {
  const MeasuredSettings settings = paced(sizes, host_ms / share);
  const std::vector<Measurement> sides = measure_in_turn({with_clip(settings, "none"), with_clip(settings, "global")});
  return {share, sides[0].schedule.step_ms, sides[1].schedule.step_ms};
}

}  // namespace

int bench_clip(bool json) {
  const Measurement host = measure_in_turn({unpaced()})[0];
  const double host_ms = host.schedule.step_ms;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!json) {
    std::printf("%d blocks, %d microbatches; the host's own work is %.1f ms a step. Steps in ms, medians.\n", kBlocks,
                kMicrobatches, host_ms);
    std::printf("%-24s %14s %14s %14s %14s\n", "host's work / device's", "clip = none", "clip = global",
                "global / none", "host / step");
  }
  for (const double share : kShares) {
    const Result result = measure(share, host_ms, host.sizes);
    rows.push_back({{"host_to_device", share},
                    {"step_ms_clip_none", result.none_ms},
                    {"step_ms_clip_global", result.global_ms},
                    {"global_to_none", result.global_ms / result.none_ms},
                    {"host_to_step", host_ms / result.none_ms}});
    if (json) continue;
    std::printf("%-24.3f %14.1f %14.1f %14.3f %14.3f\n", share, result.none_ms, result.global_ms,
                result.global_ms / result.none_ms, host_ms / result.none_ms);
    std::fflush(stdout);
  }
  if (json) std::cout << json_text(nlohmann::ordered_json{{"host_ms", host_ms}, {"cases", rows}}) << std::endl;
  return kSuccess;
}

}  // namespace l2l::tools

#include "tools/bench/benches.h"

#include <cstdio>
#include <functional>
#include <iostream>

#include "base/json.h"
#include "tools/bench/schedule_cases.h"

namespace l2l::tools {
namespace {

constexpr int kMicrobatchCounts[] = {1, 2, 4, 8};
constexpr int kCalibrated = 4;  // microbatches of the run on a free link, whose F sets the bandwidth

using Case = std::function<MeasuredSettings(int microbatches)>;

MeasuredSettings host_case(int microbatches) {
  Options options;
  options.precision.compute = "fp32";
  options.model = {.layers = 6, .hidden = 256, .heads = 4, .sequence = 128};
  options.batch = {.micro_batch = 2, .micro_batches = microbatches};
  options.transfer.stash = "host";
  options.recompute.policy = "full";
  return {options, {}, true};
}

// Sequences per second.
struct Row {
  int microbatches;
  double predicted, serial, overlapped, compute;
};

struct InnerLoop {
  const char* device;
  CostModel model;
  std::vector<Row> rows;
};

// F and B of a row are those of its run without overlap, under which they do not share cores with copies.
InnerLoop measure(const char* device, const Case& settings_of) {
  const Measurement free_link = measure_in_turn({settings_of(kCalibrated)})[0];
  const double forward = cost_model(free_link, 1).forward;
  InnerLoop result{device, {}, {}};
  for (const int u : kMicrobatchCounts) {
    const MeasuredSettings settings = with_wire_time(settings_of(u), free_link.sizes, forward);
    MeasuredSettings serial = settings;
    serial.overlap = false;
    const std::vector<Measurement> sides = measure_in_turn({settings, serial});
    result.model = cost_model(sides[1], bandwidth_of(settings));
    const double samples = 1e3 * static_cast<double>(settings.options.batch.micro_batch) * u;
    result.rows.push_back({u, samples / result.model.step_ms(u), sides[1].samples_per_second,
                           sides[0].samples_per_second, samples / result.model.compute_ms(u)});
  }
  return result;
}

nlohmann::ordered_json to_json(const InnerLoop& result) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Row& row : result.rows) {
    rows.push_back({{"microbatches", row.microbatches},
                    {"predicted", row.predicted},
                    {"without_overlap", row.serial},
                    {"with_overlap", row.overlapped},
                    {"no_transfers", row.compute}});
  }
  return {{"device", result.device},
          {"forward_ms", result.model.forward},
          {"backward_ms", result.model.backward},
          {"wire_ms", result.model.wire},
          {"sequences_per_second", rows}};
}

void print(const InnerLoop& result) {
  std::printf("\n%s: F %.3f ms, B %.3f, X %.3f, G %.3f, S %.3f\n", result.device, result.model.forward,
              result.model.backward, result.model.wire, result.model.gradients, result.model.layer_input);
  std::printf("%12s %12s %16s %10s %14s %10s %14s\n", "microbatches", "predicted", "without overlap", "ratio",
              "with overlap", "ratio", "of no transfer");
  for (const Row& row : result.rows) {
    std::printf("%12d %12.2f %16.2f %10.3f %14.2f %10.3f %14.3f\n", row.microbatches, row.predicted, row.serial,
                row.serial / row.predicted, row.overlapped, row.overlapped / row.predicted,
                row.overlapped / row.compute);
  }
  std::fflush(stdout);
}

}  // namespace

int bench_inner_loop(bool json) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  if (!json) std::printf("Sequences per second; predicted: T(u) = (2N - 1)X + NG + E + u(N(F + B + 2S) + e)\n");
  for (const auto& [device, settings] :
       {std::pair<const char*, Case>{"paced", paced_inner_loop_case}, {"host", host_case}}) {
    const InnerLoop result = measure(device, settings);
    results.push_back(to_json(result));
    if (!json) print(result);
  }
  if (json) std::cout << json_text(results) << std::endl;
  return kSuccess;
}

}  // namespace l2l::tools

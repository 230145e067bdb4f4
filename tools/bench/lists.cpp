#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "device/paced/paced_device.h"
#include "runtime/engine.h"
#include "runtime/plan_run.h"
#include "runtime/tuning/median.h"
#include "tools/bench/benches.h"

namespace l2l::tools {
namespace {

using Ids = std::vector<std::uint32_t>;
using std::chrono::steady_clock;

constexpr int kTimedSteps = 40;  // of each side, in turn

double ms_since(steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(steady_clock::now() - begin).count();
}

// A GPT-2 with `layers` blocks in use; of `reserved`, where these may be exchanged.
struct ListCase {
  const char* device;
  std::uint32_t layers, reserved;
  std::int64_t hidden, sequence, micro_batches;
  std::optional<device::PaceTable> paced = {};
};

Options options_of(const ListCase& size, bool exchanges) {
  Options options;
  options.precision.compute = "fp32";
  options.model.hidden = size.hidden;
  options.model.heads = 4;
  options.model.sequence = size.sequence;
  options.batch = {.micro_batch = 2, .micro_batches = size.micro_batches};
  options.transfer.stash = "host";
  options.recompute.policy = "full";
  options.device.kind = "host";
  if (exchanges) options.model.reserve = LayerReserve{.most_layers = size.layers};
  for (std::uint32_t id = 0; id < (exchanges ? size.reserved : size.layers); ++id) {
    (id < size.layers ? options.model.blocks : options.model.reserve->layers).push_back({.id = id});
  }
  return options;
}

class TimedRun {
 public:
  TimedRun(const ListCase& size, bool exchanges)
      : plan_(new runtime::RunPlan(runtime::plan_run(runtime::without_files(options_of(size, exchanges)), open(size)))),
        engine_(*plan_, nullptr) {
    engine_.minibatch().draw(plan_->model);
  }

  // `set_ms`: of this, what the list took. A fixed model has none.
  double step(const Ids& list, double& set_ms) {
    const auto begin = steady_clock::now();
    if (!list.empty()) {
      plan_->set_list(list);
      engine_.exchange_blocks(plan_->model);
    }
    set_ms = ms_since(begin);
    engine_.train(step_++, 1e-4);
    return ms_since(begin);
  }
  Bytes device_bytes() const { return plan_->device_peak_bytes(); }

 private:
  static runtime::Devices open(const ListCase& size) {
    runtime::Devices devices;
    if (size.paced) devices.push_back(std::make_unique<device::PacedDevice>(*size.paced));
    return devices;
  }

  std::unique_ptr<runtime::RunPlan> plan_;
  runtime::Engine engine_;
  std::uint64_t step_ = 0;
};

struct ListCost {
  double fixed_ms = 0, varying_ms = 0, set_ms = 0;  // medians; of the varying step, the list
  Bytes fixed_bytes = 0, varying_bytes = 0;         // on the device
};

// Another random list in each step.
ListCost measure(const ListCase& size) {
  TimedRun fixed(size, /*exchanges=*/false), varying(size, /*exchanges=*/true);
  std::mt19937 random(1);
  Ids all(size.reserved);
  std::iota(all.begin(), all.end(), 0u);
  std::vector<double> fixed_ms, varying_ms, set_ms;
  for (int step = -2; step < kTimedSteps; ++step) {
    std::shuffle(all.begin(), all.end(), random);
    double set = 0, none = 0;
    const double with = varying.step({all.begin(), all.begin() + size.layers}, set), without = fixed.step({}, none);
    if (step < 0) continue;
    fixed_ms.push_back(without);
    varying_ms.push_back(with);
    set_ms.push_back(set);
  }
  return {runtime::median(fixed_ms), runtime::median(varying_ms), runtime::median(set_ms), fixed.device_bytes(),
          varying.device_bytes()};
}

std::vector<ListCase> list_cases() {
  using std::chrono::microseconds;
  device::PaceTable table;  // a link that takes about half of compute
  table.launches = {
      {"block", microseconds(1000)}, {"block backward", microseconds(3000)}, {"head backward", microseconds(1000)}};
  table.h2d_bandwidth = table.d2h_bandwidth = 100'000'000;
  return {{"paced", 12, 24, 64, 16, 4, table},
          {"host", 12, 24, 256, 128, 4},
          {"paced", 24, 2000, 64, 16, 4, table},
          {"host", 24, 2000, 64, 64, 4}};
}

}  // namespace

int bench_lists(bool json) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!json) {
    std::printf("Another list of layers in each step, against a fixed model of as many. Medians of %d steps in turn.\n",
                kTimedSteps);
    std::printf("%-6s %7s %9s %11s %13s %7s %11s %15s %15s\n", "device", "layers", "reserved", "fixed, ms",
                "varying, ms", "ratio", "list, ms", "fixed, bytes", "varying, bytes");
  }
  for (const ListCase& size : list_cases()) {
    const ListCost cost = measure(size);
    const double ratio = cost.varying_ms / cost.fixed_ms;
    rows.push_back({{"device", size.device},
                    {"layers", size.layers},
                    {"reserved", size.reserved},
                    {"fixed_ms", cost.fixed_ms},
                    {"varying_ms", cost.varying_ms},
                    {"ratio", ratio},
                    {"list_ms", cost.set_ms},
                    {"fixed_device_bytes", cost.fixed_bytes},
                    {"varying_device_bytes", cost.varying_bytes}});
    if (json) continue;
    std::printf("%-6s %7u %9u %11.2f %13.2f %7.3f %11.3f %15llu %15llu\n", size.device, size.layers, size.reserved,
                cost.fixed_ms, cost.varying_ms, ratio, cost.set_ms, static_cast<unsigned long long>(cost.fixed_bytes),
                static_cast<unsigned long long>(cost.varying_bytes));
    std::fflush(stdout);
  }
  if (json) std::cout << json_text(rows) << std::endl;
  return kSuccess;
}

}  // namespace l2l::tools

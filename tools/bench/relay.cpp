#include "tools/bench/benches.h"

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <vector>

#include "base/json.h"
#include "l2l/l2l.h"
#include "runtime/tuning/median.h"
#include "tools/bench/synthetic_text.h"

namespace l2l::tools {
namespace {

constexpr int kRounds = 7;  // steps of each side, in turn; the first is not counted

struct Shape {
  const char* name;
  std::int64_t layers, hidden, heads, sequence, micro_batch, micro_batches;
};
constexpr Shape kShapes[] = {
    {"6 x 256, 4 x 1,024 tokens", 6, 256, 4, 256, 4, 4},
    {"4 x 512, 4 x 1,024 tokens", 4, 512, 8, 256, 4, 4},
    {"4 x 512, 1 x 1,024 tokens", 4, 512, 8, 256, 4, 1},
};

Options options_of(const Shape& shape, const std::string& precision, const std::string& execution,
                   const std::filesystem::path& text) {
  Options options;
  options.model = {.layers = shape.layers, .hidden = shape.hidden, .heads = shape.heads, .sequence = shape.sequence};
  options.data.train = {text.string()};
  options.batch = {.micro_batch = shape.micro_batch, .micro_batches = shape.micro_batches};
  options.precision.compute = precision;
  options.device.execution = execution;
  options.transfer.stash = execution == "relay" ? "host" : "device";
  options.recompute.policy = "full";
  return options;
}

struct RelaySpeed {
  double relay = 0, resident = 0;                       // tokens per second, medians
  double ratio = 0;                                     // relay / resident, median of the rounds
  std::uint64_t relay_device = 0, resident_device = 0;  // peak bytes
  double gigaflops = 0;  // of the relay: 8 per parameter and token (forward, recomputation, backward)
};

RelaySpeed measure(const Shape& shape, const std::string& precision, const std::filesystem::path& text) {
  Trainer relay(options_of(shape, precision, "relay", text)), resident(options_of(shape, precision, "resident", text));
  std::vector<double> relay_rates, resident_rates, ratios;
  for (int round = 0; round < kRounds; ++round) {
    const double a = relay.step().tokens_per_second, b = resident.step().tokens_per_second;
    if (round == 0) continue;
    relay_rates.push_back(a);
    resident_rates.push_back(b);
    ratios.push_back(a / b);
  }
  RelaySpeed result{runtime::median(relay_rates), runtime::median(resident_rates), runtime::median(ratios),
                    relay.device_peak_bytes(),    resident.device_peak_bytes(),    0};
  result.gigaflops = 8e-9 * static_cast<double>(relay.contract().parameters) * result.relay;
  return result;
}

nlohmann::ordered_json to_json(const Shape& shape, const std::string& precision, const RelaySpeed& result) {
  return {{"shape", shape.name},
          {"precision", precision},
          {"relay_tokens_per_second", result.relay},
          {"resident_tokens_per_second", result.resident},
          {"ratio", result.ratio},
          {"relay_device_bytes", result.relay_device},
          {"resident_device_bytes", result.resident_device},
          {"relay_gigaflops", result.gigaflops}};
}

}  // namespace

int bench_relay(bool json) {
  const SyntheticText text;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!json)
    std::printf("%-28s %-5s %14s %14s %7s %14s %14s %9s\n", "shape", "", "relay tok/s", "resident tok/s", "ratio",
                "relay device", "resident dev.", "GFLOP/s");
  for (const Shape& shape : kShapes) {
    for (const char* const precision : {"fp32", "bf16"}) {
      const RelaySpeed result = measure(shape, precision, text.path());
      rows.push_back(to_json(shape, precision, result));
      if (json) continue;
      std::printf("%-28s %-5s %14.0f %14.0f %7.3f %10.1f MiB %10.1f MiB %9.1f\n", shape.name, precision, result.relay,
                  result.resident, result.ratio, static_cast<double>(result.relay_device) / 1048576.0,
                  static_cast<double>(result.resident_device) / 1048576.0, result.gigaflops);
    }
  }
  if (json) std::cout << json_text(rows) << std::endl;
  return kSuccess;
}

}  // namespace l2l::tools

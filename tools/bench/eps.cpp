#include "tools/bench/benches.h"

#include <cstdio>
#include <iostream>

#include "base/json.h"
#include "runtime/tuning/calibration.h"

namespace l2l::tools {
namespace {

double gigabytes(const UpdateSpeed& row, double params_per_second) {
  return 1e-9 * row.bytes_per_parameter * params_per_second;
}

nlohmann::ordered_json to_json(const UpdateSpeed& row) {
  return {{"kind", row.kind},
          {"instruction_set", row.instruction_set},
          {"optimizer", row.optimizer},
          {"wire", row.wire},
          {"moments", row.moments},
          {"contributions", row.contributions},
          {"threads", row.threads},
          {"bytes_per_parameter", row.bytes_per_parameter},
          {"params_per_second", row.params_per_second},
          {"gb_per_second", gigabytes(row, row.params_per_second)},
          {"limit_params_per_second", row.limit_params_per_second},
          {"ratio", row.ratio},
          {"least_ratio", row.least_ratio},
          {"most_ratio", row.most_ratio}};
}

// Fewer parameters may lie in a cache, and say nothing of memory.
constexpr std::int64_t kRecorded = std::int64_t{1} << 26;

// Gigabytes per second by threads; the machine's calibration takes its memory's limit from here.
nlohmann::ordered_json record(const UpdateSpeeds& speeds, std::int64_t parameters) {
  nlohmann::ordered_json limits = nlohmann::ordered_json::object();
  runtime::Calibration calibration;
  for (const auto& [threads, rate] : memory_limits(speeds)) {
    limits[std::to_string(threads)] = rate;
    if (parameters >= kRecorded) calibration.set(runtime::memory_bandwidth(threads), 1e9 * rate);
  }
  calibration.save();
  return limits;
}

void print_table(const UpdateSpeeds& speeds, const nlohmann::ordered_json& limits) {
  std::printf("  %-6s %-8s %-6s %-5s %-10s %2s %8s %9s %7s %7s %7s  %s\n", "", "", "", "wire", "moments", "K",
              "threads", "Gparam/s", "GB/s", "limit", "ratio", "(range)");
  for (const UpdateSpeed& row : speeds.rows) {
    std::printf("  %-6s %-8s %-6s %-5s %-10s %2d %8d %9.3f %7.2f %7.2f %7.3f  (%.3f to %.3f)\n", row.kind.c_str(),
                row.instruction_set.c_str(), row.optimizer.c_str(), row.wire.c_str(), row.moments.c_str(),
                row.contributions, row.threads, 1e-9 * row.params_per_second, gigabytes(row, row.params_per_second),
                gigabytes(row, row.limit_params_per_second), row.ratio, row.least_ratio, row.most_ratio);
  }
  for (const auto& [threads, rate] : limits.items()) {
    std::printf("memory carries %.2f GB/s to %s thread(s)\n", rate.get<double>(), threads.c_str());
  }
}

}  // namespace

void EpsArguments::add_to(Command& command) {
  command.add("--parameters", &settings.parameters, "of each update; 2^27 take 7 GiB",
              {.least = 0x1p16, .most = 0x1p36});
  command.add("--rounds", &settings.rounds, "that count", {.least = 1, .most = 1000});
  command.add("--threads", &settings.threads, "such as 1,2; else 1, 2, 4, ... and all", {.least = 1, .most = 1024});
  command.add("--contributions", &settings.contributions, "of one update, such as 1,4; else 1,2,4,8",
              {.least = 1, .most = 8});
  command.add("--only", &settings.only, "rows that begin so: OPTIMIZER WIRE MOMENTS, such as \"adamw bf16\"");
  command.add("--instruction-set", &settings.instruction_sets,
              "of the kernels: portable, avx2, avx512 or neon; the one in use by default");
  command.add("--huge-pages", &settings.huge_pages, "for the arrays and the store");
  command.add("--quick", &quick, "4 Mi parameters, five rounds");
}

int bench_eps(EpsArguments arguments, bool json) {
  UpdateSpeedSettings& settings = arguments.settings;
  if (arguments.quick) {
    settings.parameters = std::int64_t{1} << 22;
    settings.rounds = 5;
  }
  const UpdateSpeeds speeds = measure_updates(settings);
  const nlohmann::ordered_json limits = record(speeds, settings.parameters);
  if (!json) {
    std::printf(
        "updates of %lld parameters, medians of %d rounds; limit: the same streams with next to no arithmetic\n",
        static_cast<long long>(settings.parameters), settings.rounds);
    print_table(speeds, limits);
    return kSuccess;
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const UpdateSpeed& row : speeds.rows) rows.push_back(to_json(row));
  const nlohmann::ordered_json result = {{"parameters", settings.parameters},
                                         {"rounds", settings.rounds},
                                         {"host_bytes", speeds.host_bytes},
                                         {"memory_gb_per_second", limits},
                                         {"rows", rows}};
  std::cout << json_text(result) << std::endl;
  return kSuccess;
}

}  // namespace l2l::tools

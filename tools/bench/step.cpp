#include "tools/bench/benches.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <vector>

#include "base/json.h"
#include "l2l/l2l.h"
#include "runtime/tuning/median.h"
#include "tools/bench/synthetic_text.h"

namespace l2l::tools {
namespace {

using Json = nlohmann::ordered_json;

double median_of(const std::vector<StepReport>& reports, double StepReport::*field) {
  std::vector<double> values;
  for (const StepReport& report : reports) values.push_back(report.*field);
  return runtime::median(values);
}

// Forward and backward of a parameter's products are 6 floating-point operations per token, and 8 where everything is
// recomputed; attention, and what other policies recompute, are not counted.
double flops_per_token(const Trainer& trainer) {
  const double operations = trainer.options().recompute.policy == "full" ? 8 : 6;
  return operations * static_cast<double>(trainer.contract().parameters);
}

Json to_json(const Trainer& trainer, const std::vector<StepReport>& reports, double prepare_seconds) {
  const MemoryContract& contract = trainer.contract();
  const double rate = median_of(reports, &StepReport::tokens_per_second);
  return {{"device", contract.device_description},
          {"parameters", contract.parameters},
          {"tokens_per_step", reports.back().tokens},
          {"tokens_per_second", rate},
          {"step_ms", median_of(reports, &StepReport::step_ms)},
          {"teraflops", 1e-12 * flops_per_token(trainer) * rate},
          {"device_peak_bytes", trainer.device_peak_bytes()},
          {"predicted_device_bytes", contract.device_bytes},
          {"pinned_bytes", contract.pinned_bytes},
          {"host_bytes", trainer.host_peak_bytes()},
          {"predicted_host_bytes", contract.host_bytes},
          {"prepare_seconds", prepare_seconds},
          {"h2d_bytes", reports.back().h2d_bytes},
          {"d2h_bytes", reports.back().d2h_bytes},
          {"weight_stall_ms", median_of(reports, &StepReport::weight_stall_ms)},
          {"stash_stall_ms", median_of(reports, &StepReport::stash_stall_ms)},
          {"update_stall_ms", median_of(reports, &StepReport::update_stall_ms)},
          {"loss", reports.back().loss}};
}

}  // namespace

int bench_step(Options options, int steps, bool json) {
  const SyntheticText text;
  if (options.data.train.empty() && options.data.source.empty()) options.data.train = {text.path().string()};
  options.data.validation.clear();
  options.run.validate_every = options.run.patience = 0;
  options.run.validate_minutes = 0;
  options.checkpoint = {};
  options.run.steps = steps + 1;
  Trainer trainer(std::move(options), Measuring());
  // Memory is allocated, and weights are drawn or loaded.
  const auto begin = std::chrono::steady_clock::now();
  trainer.prepare();
  const std::chrono::duration<double> prepared = std::chrono::steady_clock::now() - begin;
  std::vector<StepReport> reports;
  trainer.step();
  for (int i = 0; i < steps; ++i) reports.push_back(trainer.step());
  const Json result = to_json(trainer, reports, prepared.count());
  if (json) {
    std::cout << json_text(result) << std::endl;
    return kSuccess;
  }
  for (const auto& [key, value] : result.items()) {
    std::printf("%-24s %s\n", key.c_str(),
                value.is_string() ? value.get<std::string>().c_str() : json_text(value).c_str());
  }
  return kSuccess;
}

}  // namespace l2l::tools

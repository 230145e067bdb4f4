#include "runtime/tuning/step_ratios.h"

#include <algorithm>

#include "runtime/tuning/step_costs.h"

namespace l2l::runtime {
namespace {

constexpr double kLeast = 1e-9;  // a calibration holds only what is above 0

}  // namespace

StepRatios::StepRatios(const RunPlan& plan, Options options, Calibration& calibration)
    : plan_(plan),
      calibration_(calibration),
      options_(std::move(options)),
      plain_(with_plain_blocks(options_)),
      plain_name_(name_of_step(plain_)) {}

std::string StepRatios::name_of_step(const RunPlan& run) const {
  return StepCosts(run, calibration_, /*may_measure=*/false).name_of_step();
}

std::optional<StepRatio> StepRatios::find(const std::string& name) const {
  const std::optional<double> value = calibration_.find(name), noise = calibration_.find(name + ", noise");
  if (!value || !noise) return std::nullopt;
  return StepRatio{*value, *noise};
}

void StepRatios::keep(const std::string& name, const StepRatio& ratio) {
  calibration_.set(name, ratio.value);
  calibration_.set(name + ", noise", std::max(ratio.noise, kLeast));
}

StepRatio StepRatios::over_plain(const RunPlan& run, Effort effort) {
  const std::string ours = name_of_step(run);
  if (ours == plain_name_) return {1, 0};
  const std::string quick = "step " + ours + " over " + plain_name_, thorough = quick + ", thorough";
  if (const std::optional<StepRatio> known = find(thorough)) return *known;
  const std::string& name = effort == Effort::quick ? quick : thorough;
  if (const std::optional<StepRatio> known = find(name)) return *known;
  const StepRatio ratio = measure_pair(run, plain_, effort).ratio;
  keep(name, ratio);
  return ratio;
}

double StepRatios::seconds(const RunPlan& run) {
  const double ratio = over_plain(run).value;
  const std::string name = "step " + plain_name_;
  if (const std::optional<double> plain = calibration_.find(name)) return ratio * *plain;
  const double plain = measure_step(plain_);
  calibration_.set(name, plain);
  return ratio * plain;
}

}  // namespace l2l::runtime

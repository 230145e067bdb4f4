#include "runtime/costs/step_ratios.h"

#include "runtime/costs/step_costs.h"

namespace l2l::runtime {

StepRatios::StepRatios(const RunPlan& plan, Options options, Calibration& calibration)
    : plan_(plan), calibration_(calibration), options_(std::move(options)), plain_(with_plain_blocks(options_)) {}

std::string StepRatios::name_of_step(const RunPlan& run) const {
  return StepCosts(run, calibration_, /*may_measure=*/false).name_of_step();
}

double StepRatios::look_up(const std::string& name, const std::function<double()>& measure) {
  if (const std::optional<double> known = calibration_.find(name)) return *known;
  const double value = measure();
  calibration_.set(name, value);
  return value;
}

double StepRatios::over_plain(const RunPlan& run) {
  const std::string ours = name_of_step(run), plains = name_of_step(plain_);
  if (ours == plains) return 1;
  return look_up("step " + ours + " over " + plains, [&] { return measure_pair(run, plain_).ratio; });
}

double StepRatios::seconds(const RunPlan& run) {
  const double ratio = over_plain(run);
  return ratio * look_up("step " + name_of_step(plain_), [&] { return measure_step(plain_); });
}

}  // namespace l2l::runtime

#include "runtime/tuning/step_ratios.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "l2l/errors.h"

namespace l2l::runtime {
namespace {

constexpr double kLeastNoise = 1e-9;  // a calibration holds only what is above 0
constexpr StepRatio kUnknown{std::numeric_limits<double>::infinity(), 0};

// Of a model that shows what pieces cost each other.
Options measured_options(const RunParts& parts) {
  constexpr Bytes kState = Bytes{256} << 20;
  constexpr std::int64_t kMicrobatches = 8, kVocabulary = 4096;
  Options options = shallower(parts, kState);
  options.batch.micro_batches = std::min(options.batch.micro_batches, kMicrobatches * options.device.count);
  if (options.model.vocabulary > kVocabulary) {
    options.model.vocabulary = kVocabulary;
    options.data.mask_token = -1;
  }
  return options;
}

}  // namespace

StepRatios::StepRatios(const RunParts& parts, Options options, Calibration& calibration)
    : parts_(parts),
      calibration_(calibration),
      options_(std::move(options)),
      plain_(plain_plan(options_)),
      plain_name_(name_of_step(plain_)) {}

std::string StepRatios::name_of_step(const RunPlan& run) const {
  return StepCosts(run, calibration_, /*may_measure=*/false).name_of_step(run);
}

std::optional<StepRatio> StepRatios::find(const std::string& name) const {
  const std::optional<double> value = calibration_.find(name), noise = calibration_.find(name + ", noise");
  if (!value || !noise) return std::nullopt;
  return StepRatio{*value, *noise};
}

StepRatio StepRatios::over_plain(const RunPlan& run, Effort effort) {
  const std::string ours = name_of_step(run);
  if (ours == plain_name_) return {1, 0};
  const std::string quick = "step " + ours + " over " + plain_name_, thorough = quick + ", thorough";
  if (const std::optional<StepRatio> known = find(thorough)) return *known;
  const std::string& name = effort == Effort::quick ? quick : thorough;
  if (const std::optional<StepRatio> known = find(name)) return *known;
  const StepRatio ratio = measure_pair(run, plain_, effort).ratio;
  calibration_.set(name, ratio.value);
  calibration_.set(name + ", noise", std::max(ratio.noise, kLeastNoise));
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

// Where the machine is busy, those that may be the shortest are measured again, thoroughly: the shortest of several
// that were measured once was the luckiest.
std::vector<StepRatio> measure_steps(const RunParts& parts, const std::vector<Proposal>& proposals,
                                     Calibration& calibration) {
  std::vector<StepRatio> steps(proposals.size(), kUnknown);
  StepRatios ratios(parts, measured_options(parts), calibration);
  const auto measure = [&](std::size_t i, Effort effort) {
    try {
      steps[i] = ratios.over_plain(ratios.run(proposals[i].decisions), effort);
    } catch (const OutOfMemory&) {
    }
  };
  for (std::size_t i = 0; i < steps.size(); ++i) measure(i, Effort::quick);
  for (const std::size_t i : worth_measuring_again(steps)) measure(i, Effort::thorough);
  return steps;
}

}  // namespace l2l::runtime

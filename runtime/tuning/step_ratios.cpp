#include "runtime/tuning/step_ratios.h"

#include <algorithm>
#include <memory>

#include "l2l/errors.h"

namespace l2l::runtime {
namespace {

constexpr double kLeastNoise = 1e-9;  // a calibration holds only what is above 0

// Of a model that shows what pieces cost each other.
Options measured_options(const RunParts& parts) {
  constexpr Bytes kState = Bytes{256} << 20;
  constexpr std::int64_t kMicrobatches = 8, kVocabulary = 4096;
  Options options = shallower(parts, kState);
  // Of one rank, whose share may have fewer microbatches than the minibatch has parts.
  options.batch.parts = 0;
  options.batch.micro_batches =
      options.device.groups() * std::min<std::int64_t>(parts.options.device_microbatches(), kMicrobatches);
  if (options.model.vocabulary > kVocabulary) {
    options.model.vocabulary = kVocabulary;
    options.data.mask_token = -1;
  }
  return options;
}

}  // namespace

StepRatios::StepRatios(const RunParts& parts, Options options, Calibration& calibration, MeasuringSession& session)
    : parts_(parts),
      calibration_(calibration),
      session_(session),
      options_(std::move(options)),
      devices_(!session.thorough() && parts.device->uses_host_memory() ? parts.devices : Devices()),
      plain_(plain_plan(options_, devices_, peers_of(parts, devices_))),
      plain_name_(name_of_step(plain_)) {}

std::string StepRatios::name_of_step(const RunPlan& run) const {
  return StepCosts(run, calibration_, /*session=*/nullptr).name_of_step(run);
}

std::optional<StepRatio> StepRatios::find(const std::string& name) const {
  const std::optional<double> value = calibration_.find(name), noise = calibration_.find(name + ", noise");
  if (!value || !noise) return std::nullopt;
  return StepRatio{*value, *noise};
}

std::string StepRatios::name_of_ratio(const std::string& step, Effort effort) const {
  return "step " + step + " over " + plain_name_ + (effort == Effort::thorough ? ", thorough" : "");
}

std::optional<StepRatio> StepRatios::known(const std::string& step) const {
  if (step == plain_name_) return StepRatio{1, 0};
  const std::optional<StepRatio> thorough = find(name_of_ratio(step, Effort::thorough));
  return thorough ? thorough : find(name_of_ratio(step, Effort::quick));
}

std::optional<StepRatio> StepRatios::known(const RunPlan& run) const { return known(name_of_step(run)); }

StepRatio StepRatios::over_plain(const RunPlan& run, Effort effort) {
  const std::string step = name_of_step(run), name = name_of_ratio(step, effort);
  const std::optional<StepRatio> known = this->known(step);
  if (known && (effort == Effort::quick || known->noise == 0 || find(name))) return *known;
  session_.begin("steps of a shallower model", effort == Effort::thorough ? kThoroughPairSeconds : kPairSeconds);
  const StepRatio ratio = measure_pair(run, plain_, effort).ratio;
  calibration_.set(name, ratio.value);
  calibration_.set(name + ", noise", std::max(ratio.noise, kLeastNoise));
  calibration_.save_now_and_then();
  return ratio;
}

double StepRatios::seconds(const RunPlan& run) {
  const double ratio = over_plain(run).value;
  const std::string name = "step " + plain_name_;
  if (const std::optional<double> plain = calibration_.find(name)) return ratio * *plain;
  session_.begin("steps of a shallower model", kPairSeconds / 2);
  const double plain = measure_step(plain_);
  calibration_.set(name, plain);
  return ratio * plain;
}

// Where the machine is busy, those that may be the shortest are measured again, thoroughly, since the shortest of
// several that were measured once was the luckiest; and so on with those that may be the shortest then, so that the
// same question leaves nothing to measure.
std::vector<StepRatio> measure_steps(const RunParts& parts, const std::vector<Proposal>& proposals,
                                     Calibration& calibration, MeasuringSession& session) {
  std::vector<StepRatio> steps(proposals.size(), kUnknownStep);
  StepRatios ratios(parts, measured_options(parts), calibration, session);
  const auto find = [&](std::size_t i) {
    steps[i] = ratios.known(ratios.run(proposals[i].decisions)).value_or(kUnknownStep);
  };
  const auto measure = [&](std::size_t i, Effort effort) {
    try {
      steps[i] = ratios.over_plain(ratios.run(proposals[i].decisions), effort);
    } catch (const OutOfMemory&) {
    }
  };
  for (std::size_t i = 0; i < steps.size(); ++i) find(i);
  if (!session.thorough()) return steps;
  const auto unknown = std::count_if(steps.begin(), steps.end(), is_unknown);
  session.expect(static_cast<int>(unknown), static_cast<double>(unknown) * kPairSeconds);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (is_unknown(steps[i])) measure(i, Effort::quick);
  }
  std::vector<bool> measured(steps.size());
  while (true) {
    std::vector<std::size_t> again = worth_measuring_again(steps);
    std::erase_if(again, [&](std::size_t i) { return measured[i]; });
    if (again.empty()) return steps;
    session.expect(static_cast<int>(again.size()), static_cast<double>(again.size()) * kThoroughPairSeconds);
    for (const std::size_t i : again) {
      measure(i, Effort::thorough);
      measured[i] = true;
    }
  }
}

}  // namespace l2l::runtime

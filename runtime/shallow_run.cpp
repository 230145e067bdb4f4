#include "runtime/shallow_run.h"

#include <algorithm>
#include <chrono>

#include "runtime/engine.h"
#include "runtime/median.h"

namespace l2l::runtime {

Options shallower(const RunPlan& plan) {
  constexpr Bytes kLargestState = Bytes{1} << 30;
  const auto blocks = static_cast<Bytes>(plan.model.blocks());
  const Bytes one = eps::ParameterStore::bytes_needed(plan.model.layout, plan.store).state / blocks;
  Options options = plan.options;
  options.model.layers = static_cast<std::int64_t>(
      std::max<Bytes>(1, std::min((blocks + 1) / 2, kLargestState / std::max<Bytes>(1, one))));
  options.device.kind = "host";
  options.transfer.stash = plan.execution.stash == StashPlace::host ? "host" : "device";
  options.data = {};
  options.checkpoint = {};
  return options;
}

double measure_step(const RunPlan& plan) {
  constexpr int kWarmUp = 3, kLeastSteps = 7, kMostSteps = 200;
  constexpr double kSeconds = 1.5, kLearningRate = 1e-6;
  Engine engine(plan, nullptr);
  engine.minibatch().draw(plan.model.vocabulary);
  std::vector<double> seconds;
  double total = 0;
  for (int step = 0; step < kWarmUp + kMostSteps && (step < kWarmUp + kLeastSteps || total < kSeconds); ++step) {
    const Clock::time_point begin = Clock::now();
    engine.train(static_cast<std::uint64_t>(step), kLearningRate);
    if (step < kWarmUp) continue;
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    total += seconds.back();
  }
  engine.store().complete_updates();
  return median(std::move(seconds));
}

}  // namespace l2l::runtime

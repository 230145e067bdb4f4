#include "runtime/costs/shallow_run.h"

#include <algorithm>
#include <chrono>

#include "runtime/engine.h"
#include "runtime/measure/median.h"
#include "runtime/options/without_files.h"

namespace l2l::runtime {

Options shallower(const RunPlan& plan, Bytes state) {
  const auto blocks = static_cast<Bytes>(plan.model.blocks());
  const Bytes one = eps::ParameterStore::bytes_needed(plan.model.layout, plan.store).state / blocks;
  Options options = without_files(plan.options);
  options.batch.minibatch = 0;  // follows from the other two, which may be changed
  options.model.layers =
      static_cast<std::int64_t>(std::max<Bytes>(1, std::min((blocks + 1) / 2, state / std::max<Bytes>(1, one))));
  options.device.kind = "host";
  options.transfer.resident_layers = TransferOptions::kChosen;
  options.device.memory = options.eps.memory = options.eps.stash_memory = 0;
  return options;
}

Options with_plain_blocks(Options options) {
  options.recompute = {};
  options.transfer.resident_layers = TransferOptions::kChosen;
  const bool rebuilds = options.model.reversible != "none" && options.transfer.stash == "auto";
  if (!rebuilds) options.transfer.stash = "host";
  return options;
}

RunPlan shallower_plan(const RunPlan& plan, const Options& options, const Arrangement& arrangement) {
  const auto blocks = plan.model.blocks() - static_cast<int>(plan.options.model.layers - options.model.layers);
  return RunPlan(options, {}, Chosen{resampled(arrangement, blocks)});
}

namespace {

// Thread-bound.
class Run {
 public:
  explicit Run(const RunPlan& plan) : engine_(plan, nullptr) { engine_.minibatch().draw(plan.model.vocabulary); }
  ~Run() { engine_.store().complete_updates(); }

  // A round: steps that take about `seconds` together, without the first ones, which find the caches as others left
  // them. Of steps so long that it matters less, one of each sort is enough.
  void train(double seconds) {
    constexpr int kFirst = 2, kLeast = 3;
    constexpr double kLong = 2;  // seconds
    double first = 0, total = 0;
    std::vector<double> round;
    for (int step = 0; step < kFirst && first < kLong; ++step) first += one();
    for (int step = 0; (step < kLeast && total < kLong) || total < seconds; ++step) {
      round.push_back(one());
      total += round.back();
    }
    engine_.store().complete_updates();
    rounds_.push_back(median(round));
  }
  const std::vector<double>& rounds() const { return rounds_; }  // the median of each

 private:
  double one() {
    constexpr double kLearningRate = 1e-6;
    const Clock::time_point begin = Clock::now();
    engine_.train(step_++, kLearningRate);
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  Engine engine_;
  std::uint64_t step_ = 0;
  std::vector<double> rounds_;
};

// Seconds of a step, [plan][round]. Who is first in a round is last in the next.
std::vector<std::vector<double>> measure_rounds(const std::vector<const RunPlan*>& plans) {
  constexpr int kRounds = 8;
  constexpr double kSeconds = 0.2;  // of a round
  constexpr double kEnough = 20;    // seconds after which no further round begins
  std::vector<std::unique_ptr<Run>> runs;
  for (const RunPlan* const plan : plans) runs.push_back(std::make_unique<Run>(*plan));
  std::vector<Run*> order;
  for (const auto& run : runs) order.push_back(run.get());
  const Clock::time_point begin = Clock::now();
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0 && std::chrono::duration<double>(Clock::now() - begin).count() > kEnough) break;
    for (Run* const run : order) run->train(kSeconds);
    std::reverse(order.begin(), order.end());
  }
  std::vector<std::vector<double>> rounds;
  for (const auto& run : runs) rounds.push_back(run->rounds());
  return rounds;
}

}  // namespace

double measure_step(const RunPlan& plan) { return median(measure_rounds({&plan})[0]); }

StepPair measure_pair(const RunPlan& first, const RunPlan& second) {
  const std::vector<std::vector<double>> rounds = measure_rounds({&first, &second});
  std::vector<double> ratios;
  for (std::size_t i = 0; i < rounds[0].size(); ++i) ratios.push_back(rounds[0][i] / rounds[1][i]);
  return {median(rounds[0]), median(ratios)};
}

}  // namespace l2l::runtime

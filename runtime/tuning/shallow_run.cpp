#include "runtime/tuning/shallow_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "core/trace.h"
#include "models/architecture.h"
#include "runtime/engine.h"
#include "runtime/plan/fixed_decisions.h"
#include "runtime/plan/memory_contract.h"
#include "runtime/tuning/median.h"

namespace l2l::runtime {

namespace {

// Whether as much is trained of each block, as far down as the first: names of parameters say which of all blocks.
bool trains_alike(const models::Model& model) {
  const auto trained = [&](int block) { return model.gradient_bytes(model.block(block), DType::f32); };
  for (int block = 2; block <= model.blocks(); ++block) {
    if (trained(block) != trained(1)) return false;
  }
  return model.lowest_visited() <= model.block(1);
}

}  // namespace

Options shallower(const RunParts& parts, Bytes state) {
  const auto blocks = static_cast<Bytes>(parts.model.blocks());
  const Bytes one = eps::ParameterStore::bytes_needed(parts.model.layout, parts.store).state / blocks;
  Options options = without_files(parts.options);
  options.batch.minibatch = 0;  // follows from the other two, which may be changed
  options.batch.micro_batches /= parts.options.rank.count;
  options.batch.parts /= parts.options.rank.count;
  options.distributed.nodes = 0;
  options.device.kind = "host";
  options.transfer.resident_layers = TransferOptions::kChosen;
  options.device.memory = options.eps.memory = options.eps.stash_memory = 0;
  // Layers of a program's own that pass on values of several shapes fit each other alone.
  const std::vector<Bytes>& inputs = parts.model.input_bytes;
  const bool uniform = std::ranges::all_of(inputs, [&](Bytes bytes) { return bytes == inputs.front(); });
  const bool exchanged = parts.model.exchange.most > 0;  // which has more blocks than the options list
  if (parts.model.head_kind == models::HeadKind::custom || !uniform || exchanged) return options;
  if (!options.optimizer.train.empty() && !trains_alike(parts.model)) return options;
  options.model.layers =
      static_cast<std::int64_t>(std::max<Bytes>(1, std::min((blocks + 1) / 2, state / std::max<Bytes>(1, one))));
  // Each is of the kind of the block that it stands for.
  const std::vector<int> places = places_of_fewer(parts.model.blocks(), static_cast<int>(options.model.layers));
  const std::vector<std::string> types = models::with_defaults(options.model).layer_types;
  const std::vector<Layer> own = std::exchange(options.model.blocks, {});
  if (own.empty()) options.model.layer_types.clear();
  for (const int place : places) {
    const auto at = static_cast<std::size_t>(place);
    if (!own.empty()) {
      options.model.blocks.push_back(own[at]);
      options.model.blocks.back().shares.reset();  // whose parameters may be left out
    } else if (types.size() > 1) {
      options.model.layer_types.push_back(types[at % types.size()]);
    }
  }
  return options;
}

RunPlan shallower_plan(const RunParts& parts, const Options& options, const Decisions& decisions, Devices devices) {
  const auto blocks = parts.model.blocks() - static_cast<int>(parts.options.model.layers - options.model.layers);
  PeerGroups peers = peers_of(parts, devices);
  return RunPlan(make_parts(resolve(options), std::move(devices), std::move(peers)), resampled(decisions, blocks));
}

PeerGroups peers_of(const RunParts& parts, const Devices& devices) {
  return devices.empty() ? PeerGroups() : parts.peers;
}

RunPlan plain_plan(Options options, Devices devices, PeerGroups peers) {
  options.recompute = {.policy = "full"};
  options.transfer.resident_layers = TransferOptions::kChosen;
  if (!options.rebuilds_inputs()) options.transfer.stash = "host";
  RunParts parts = make_parts(resolve(options), std::move(devices), std::move(peers));
  Decisions decisions = fixed_decisions(parts);
  return RunPlan(std::move(parts), std::move(decisions));
}

namespace {

// Of each round: seconds of a step.
struct StepTimes {
  std::vector<double> median, least;
};

const RunPlan& checked(const RunPlan& plan) {
  check_limits(plan, memory_contract(plan));
  return plan;
}

// Thread-bound.
class Run {
 public:
  explicit Run(const RunPlan& plan) : engine_(checked(plan), nullptr) { engine_.minibatch().draw(plan.model); }
  ~Run() { engine_.store().complete_updates(); }

  // A round: steps that take about `seconds` together. The first ones, which find the caches as other runs left them,
  // do not count. Where steps are long, that matters less, and one of each sort is enough.
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
    rounds_.median.push_back(median(round));
    rounds_.least.push_back(*std::min_element(round.begin(), round.end()));
  }
  const StepTimes& rounds() const { return rounds_; }

 private:
  double one() {
    constexpr double kLearningRate = 1e-6;
    const Clock::time_point begin = Clock::now();
    engine_.train(step_++, kLearningRate);
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  Engine engine_;
  std::uint64_t step_ = 0;
  StepTimes rounds_;
};

// By plan. The one that is first in a round is last in the next.
std::vector<StepTimes> measure_rounds(const std::vector<const RunPlan*>& plans, Effort effort) {
  constexpr double kSeconds = 0.1;  // of a round
  const int times = effort == Effort::thorough ? 3 : 1;
  const int most = effort == Effort::brief ? 1 : 8 * times;
  const double enough = 20 * times;  // seconds after which no further round begins
  std::vector<std::unique_ptr<Run>> runs;
  for (const RunPlan* const plan : plans) runs.push_back(std::make_unique<Run>(*plan));
  std::vector<Run*> order;
  for (const auto& run : runs) order.push_back(run.get());
  const Clock::time_point begin = Clock::now();
  for (int round = 0; round < most; ++round) {
    if (round > 0 && std::chrono::duration<double>(Clock::now() - begin).count() > enough) break;
    for (Run* const run : order) run->train(measuring_time(kSeconds));
    std::reverse(order.begin(), order.end());
  }
  std::vector<StepTimes> rounds;
  for (const auto& run : runs) rounds.push_back(run->rounds());
  return rounds;
}

// The deviation is that of a normal distribution with the same median distance from the median, which has a standard
// error 1.25 times that of the mean.
StepRatio ratio_of(const std::vector<double>& ratios) {
  const double value = median(ratios);
  std::vector<double> distances;
  for (const double ratio : ratios) distances.push_back(std::abs(ratio / value - 1));
  const double error = 1.25 * 1.48 * median(distances) / std::sqrt(static_cast<double>(ratios.size()));
  return {value, std::sqrt(2.0) * error};
}

}  // namespace

double measure_step(const RunPlan& plan, Effort effort) { return median(measure_rounds({&plan}, effort)[0].median); }

// Other work on the machine only ever adds to a step, so the fastest steps show what the two runs take themselves.
StepPair measure_pair(const RunPlan& first, const RunPlan& second, Effort effort) {
  const std::vector<StepTimes> rounds = measure_rounds({&first, &second}, effort);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < rounds[0].least.size(); ++i) ratios.push_back(rounds[0].least[i] / rounds[1].least[i]);
  return {median(rounds[0].median), ratio_of(ratios)};
}

}  // namespace l2l::runtime

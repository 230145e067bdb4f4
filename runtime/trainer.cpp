#include "l2l/trainer.h"

#include <optional>

#include "core/host_memory.h"
#include "core/log.h"
#include "eps/checkpoint/checkpoint_writer.h"
#include "optimizers/schedule.h"
#include "runtime/engine.h"
#include "runtime/generator.h"
#include "runtime/options/batch_shape.h"
#include "runtime/plan/memory_contract.h"
#include "runtime/plan_run.h"
#include "runtime/tuning/prediction.h"

namespace l2l {

using runtime::Dataset;
using runtime::Minibatch;

namespace {

constexpr std::size_t kTraceSpans = 200'000;  // 9 MB, a file of 25 MB; further ones are dropped and counted

optimizers::Schedule make_schedule(const Options& options) {
  optimizers::Schedule schedule;
  schedule.kind = options.schedule.kind == "cosine"   ? optimizers::ScheduleKind::cosine
                  : options.schedule.kind == "linear" ? optimizers::ScheduleKind::linear
                                                      : optimizers::ScheduleKind::constant;
  schedule.learning_rate = options.optimizer.learning_rate;
  schedule.minimum = options.schedule.minimum;
  schedule.warmup_steps = static_cast<std::uint64_t>(options.schedule.warmup_steps);
  schedule.steps = static_cast<std::uint64_t>(options.run.steps);
  return schedule;
}

// Of the checkpoints that were passed over for `used`.
void warn_of_lost_steps(const std::filesystem::path& directory, const std::filesystem::path& used, std::uint64_t step) {
  const std::uint64_t newest = eps::newest_step(directory);
  if (newest <= step) return;
  const std::string first = std::to_string(step + 1), last = std::to_string(newest);
  log(LogLevel::warning, "resuming from " + used.string() + ": " +
                             (newest == step + 1 ? "step " + last + " is" : "steps " + first + " to " + last + " are") +
                             " lost and will be repeated");
}

}  // namespace

struct Trainer::Implementation {
  explicit Implementation(const Options& options)
      : plan(runtime::plan_run(options)),
        contract(runtime::memory_contract(plan)),
        schedule(make_schedule(plan.options)) {
    runtime::check_limits(plan, contract);
    if (plan.options.train) {
      train.emplace(*plan.options.train, plan.dataset_settings());
      train->require_training_data();
      data_hash = train->hash();
    }
    if (plan.options.validation) validation.emplace(*plan.options.validation, plan.dataset_settings());
  }

  // Allocates on first use.
  runtime::Engine& running() {
    if (!engine) {
      engine = std::make_unique<runtime::Engine>(plan, trace.get());
      checkpoints.emplace(engine->store());
      runtime::Calibration calibration;
      prediction = runtime::predict_step(plan, calibration, /*may_measure=*/false);
    }
    return *engine;
  }

  std::uint64_t samples_per_step() const {
    return static_cast<std::uint64_t>(plan.options.batch.micro_batch * plan.options.batch.micro_batches);
  }
  void fill_training();
  std::uint64_t fill_validation(std::uint64_t first);
  template <typename Fill>
  void fill(Fill fill_sequence);
  // Running totals; a step's report holds what it added to them.
  struct Totals {
    runtime::Stalls stalls;
    LinkCounters link;
    eps::EpsWork eps;
  };
  Totals totals() const { return {engine->stalls(), link_counters(), engine->store().work()}; }
  void report_eps(StepReport& report, const eps::EpsWork& before, const eps::EpsWork& now) const;
  LinkCounters link_counters() const;
  StepReport report(const runtime::Engine::Result& result, double rate, Clock::time_point begin, const Totals& before);
  StepReport run_step();
  void restore_position(const eps::RunState& state);
  void check_micro_batch(const eps::RunState& state) const;

  const runtime::RunPlan plan;
  MemoryContract contract;
  optimizers::Schedule schedule;
  std::optional<Dataset> train, validation;
  std::unique_ptr<Trace> trace;
  std::unique_ptr<runtime::Engine> engine;
  std::optional<eps::CheckpointWriter> checkpoints;  // of the engine's store
  StepPrediction prediction;  // of a training step, by what was measured before; made with the engine
  PeakResident peak;
  std::uint64_t step = 0;           // completed
  std::uint64_t data_position = 0;  // samples consumed
  std::uint64_t data_hash = 0;      // of `train`; constant after construction
};

// Calls fill_sequence(index, tokens, targets) for every sequence of the minibatch.
template <typename Fill>
void Trainer::Implementation::fill(Fill fill_sequence) {
  Minibatch& minibatch = running().minibatch();
  const auto sequence = static_cast<std::size_t>(plan.options.model.sequence);
  std::uint64_t index = 0;
  for (int u = 0; u < minibatch.microbatches(); ++u) {
    const std::span<std::int32_t> tokens = minibatch.tokens(u), targets = minibatch.targets(u);
    for (std::size_t row = 0; row < tokens.size(); row += sequence) {
      fill_sequence(index++, tokens.subspan(row, sequence), targets.subspan(row, sequence));
    }
  }
}

void Trainer::Implementation::fill_training() {
  if (!train) throw BadInput("data.train: no training data; name at least one file");
  fill([&](std::uint64_t index, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) {
    train->sample(data_position + index, tokens, targets);
  });
  data_position += samples_per_step();
}

// Windows from `first` on, as many as a minibatch holds; what is beyond the end predicts nothing. Returns the next one.
std::uint64_t Trainer::Implementation::fill_validation(std::uint64_t first) {
  fill([&](std::uint64_t index, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) {
    validation->validation_window(first + index, tokens, targets);
  });
  return first + samples_per_step();
}

LinkCounters Trainer::Implementation::link_counters() const {
  using transfer::Traffic;
  LinkCounters counters;
  if (!engine) return counters;
  counters.weights_h2d = engine->h2d(Traffic::weights);
  counters.gradients_d2h = engine->d2h(Traffic::gradients);
  counters.stash_h2d = engine->h2d(Traffic::stash);
  counters.stash_d2h = engine->d2h(Traffic::stash);
  counters.batch_h2d = engine->h2d(Traffic::batch);
  counters.results_d2h = engine->d2h(Traffic::results);
  return counters;
}

StepReport Trainer::Implementation::report(const runtime::Engine::Result& result, double rate, Clock::time_point begin,
                                           const Totals& before) {
  const Totals now = totals();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  StepReport report;
  report.step = static_cast<std::int64_t>(step);
  report.tokens = plan.model.rows * plan.options.batch.micro_batches;
  report.loss = result.loss_sum / static_cast<double>(engine->minibatch().predicted());
  report.learning_rate = rate;
  report.gradient_norm = result.gradient_norm;
  report.loss_scale = result.loss_scale;
  report.skipped = result.skipped;
  report.step_ms = 1e3 * seconds;
  report.tokens_per_second = static_cast<double>(report.tokens) / seconds;
  report.device_peak_bytes = plan.device_peak_bytes();
  report.host_bytes = peak.bytes();
  report.h2d_bytes = now.link.h2d() - before.link.h2d();
  report.d2h_bytes = now.link.d2h() - before.link.d2h();
  report.weight_stall_ms = now.stalls.weights_ms - before.stalls.weights_ms;
  report.stash_stall_ms = now.stalls.stash_ms - before.stalls.stash_ms;
  report.update_stall_ms = now.stalls.update_ms - before.stalls.update_ms;
  report.predicted_ms = prediction.step_ms;
  report.stream_drift = result.drift;
  report_eps(report, before.eps, now.eps);
  return report;
}

void Trainer::Implementation::report_eps(StepReport& report, const eps::EpsWork& before,
                                         const eps::EpsWork& now) const {
  const double busy_ns = std::chrono::duration<double, std::nano>(now.busy - before.busy).count();
  if (busy_ns > 0) report.eps_gb_per_second = static_cast<double>(now.bytes - before.bytes) / busy_ns;
  if (prediction.memory_gb_per_second) {
    report.eps_fraction = report.eps_gb_per_second / *prediction.memory_gb_per_second;
  }
}

StepReport Trainer::Implementation::run_step() {
  running();
  const Clock::time_point begin = Clock::now();
  const Totals before = totals();
  fill_training();
  const double rate = schedule.at(step);
  const runtime::Engine::Result result = running().train(step, rate);
  ++step;
  return report(result, rate, begin, before);
}

// Of one that was chosen by what steps take here, where that of the checkpoint could be kept.
void Trainer::Implementation::check_micro_batch(const eps::RunState& state) const {
  const std::int64_t ours = plan.options.batch.micro_batch;
  const std::optional<std::int64_t> its =
      runtime::micro_batch_to_keep(plan.options, parse_options(state.config, "the checkpoint's config"));
  if (!its || *its == ours) return;
  throw BadInput("batch.micro_batch was chosen to be " + std::to_string(ours) + ", but the checkpoint was made with " +
                 std::to_string(*its) + "; another one gives other bits: set it to that, as options_to_resume() does");
}

void Trainer::Implementation::restore_position(const eps::RunState& state) {
  if (state.seed != plan.options.run.seed) {
    throw BadInput(
        "run.seed is " + std::to_string(plan.options.run.seed) + ", but the checkpoint was made with seed " +
        std::to_string(state.seed) +
        "; its random numbers and order of data follow from that: set run.seed = " + std::to_string(state.seed));
  }
  if (train && state.data_hash != data_hash) {
    const std::string what = "data.train: its files do not hold what they held when the checkpoint was made";
    if (!plan.options.data.allow_change) {
      throw BadInput(what + "; the position in them has no meaning now: restore them, or set data.allow_change = true");
    }
    log(LogLevel::warning, what + "; training goes on at the same position in the new ones");
  }
  if (plan.decisions.micro_batch) check_micro_batch(state);
  step = state.step;
  data_position = state.data_position;
  optimizers::LossScaler& scaler = running().loss_scaler();
  if (scaler.is_dynamic() && state.loss_scale > 0) {
    scaler.restore(static_cast<double>(state.loss_scale), state.good_steps);
  }
}

Trainer::Trainer(Options options) : implementation_(std::make_unique<Implementation>(options)) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

const Options& Trainer::options() const { return implementation_->plan.options; }
const MemoryContract& Trainer::contract() const { return implementation_->contract; }
std::int64_t Trainer::completed_steps() const { return static_cast<std::int64_t>(implementation_->step); }

StepPrediction Trainer::check_prediction() {
  if (implementation_->engine) throw Error("check_prediction(): call it before prepare() and before the first step");
  return runtime::check_prediction(implementation_->plan);
}

StepPrediction Trainer::predict(bool measure) {
  Implementation& self = *implementation_;
  if (measure && self.engine) throw Error("predict(): measure before prepare() and before the first step");
  runtime::Calibration calibration;
  return runtime::predict_step(self.plan, calibration, measure);
}

void Trainer::prepare() { implementation_->running(); }

std::filesystem::path Trainer::resume(const std::filesystem::path& directory) {
  Implementation& self = *implementation_;
  if (self.step > 0) throw Error("resume(): call it before the first step");
  finish_save();
  const std::vector<std::filesystem::path> folders = eps::find_checkpoints(directory);
  for (const std::filesystem::path& folder : folders) {
    try {
      self.restore_position(eps::load_checkpoint(folder, self.running().store()));
      warn_of_lost_steps(directory, folder, self.step);
      return folder;
    } catch (const CorruptFile& error) {
      if (folder == folders.back()) throw;
      log(LogLevel::warning, std::string(error.what()) + "; trying an older checkpoint");
    }
  }
  throw Error("unreachable");
}

StepReport Trainer::step() {
  try {
    return implementation_->run_step();
  } catch (const NumericError& error) {
    if (options().model.reversible != "fixed") throw;
    throw NumericError(std::string(error.what()) +
                       "; in fixed point a residual stream that leaves +-32768 shows so, too: model.reversible = "
                       "\"float\" has no such range");
  }
}

void Trainer::train(std::int64_t steps, const std::function<bool(const StepReport&)>& progress) {
  while (completed_steps() < steps && progress(step())) {
  }
}

std::optional<double> Trainer::validation_loss(const std::function<bool()>& stop) {
  Implementation& self = *implementation_;
  if (!self.validation) throw BadInput("data.validation: no validation data; name at least one file");
  double sum = 0;
  std::int64_t predicted = 0;
  for (std::uint64_t window = 0; window < self.validation->windows();) {
    if (stop && stop()) return std::nullopt;
    window = self.fill_validation(window);
    predicted += self.running().minibatch().predicted();
    sum += self.running().evaluate(self.step);
  }
  return sum / static_cast<double>(predicted);
}

void Trainer::start_save() {
  Implementation& self = *implementation_;
  const CheckpointOptions& checkpoint = self.plan.options.checkpoint;
  if (checkpoint.directory.empty()) throw BadInput("checkpoint.directory: not set; nowhere to save to");
  self.running();
  eps::RunState state{self.step, self.plan.options.run.seed, self.data_position, to_toml(self.plan.options),
                      self.data_hash};
  const optimizers::LossScaler& scaler = self.running().loss_scaler();
  if (scaler.is_dynamic()) {
    state.loss_scale = static_cast<std::uint64_t>(scaler.scale());
    state.good_steps = scaler.good_steps();
  }
  self.checkpoints->start(checkpoint.directory, state, static_cast<int>(checkpoint.keep));
}

bool Trainer::saving() const { return implementation_->checkpoints && implementation_->checkpoints->running(); }

std::filesystem::path Trainer::finish_save() {
  return implementation_->checkpoints ? implementation_->checkpoints->finish() : std::filesystem::path();
}

std::filesystem::path Trainer::save() {
  start_save();
  return finish_save();
}

std::vector<std::int32_t> Trainer::generate(std::span<const std::int32_t> prompt, const GenerateOptions& options) {
  return runtime::generate(implementation_->running(), implementation_->plan, implementation_->step, prompt, options);
}

LinkCounters Trainer::link_counters() const { return implementation_->link_counters(); }

std::uint64_t Trainer::device_peak_bytes() const { return implementation_->plan.device_peak_bytes(); }

std::uint64_t Trainer::host_peak_bytes() const { return implementation_->peak.bytes(); }

std::uint64_t Trainer::weights_hash() {
  eps::ParameterStore& store = implementation_->running().store();
  store.complete_updates();
  return store.state_hash();
}

void Trainer::start_trace() {
  if (implementation_->engine) throw Error("start_trace(): call it right after construction");
  MemoryContract& contract = implementation_->contract;
  contract.host.push_back({"timeline (--trace)", Trace::bytes(kTraceSpans)});
  contract.host_bytes += Trace::bytes(kTraceSpans);
  runtime::check_limits(implementation_->plan, contract);
  implementation_->trace = std::make_unique<Trace>(kTraceSpans);
  implementation_->plan.set_trace(implementation_->trace.get());
}

void Trainer::write_trace(const std::filesystem::path& file) const {
  if (!implementation_->trace) throw Error("write_trace(): start_trace() was not called");
  if (implementation_->engine) static_cast<void>(implementation_->engine->stalls());  // brings device times up to date
  implementation_->trace->write(file);
}

}  // namespace l2l

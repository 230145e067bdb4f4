#include "l2l/trainer.h"

#include <cmath>
#include <optional>

#include "core/activity.h"
#include "core/host_memory.h"
#include "core/log.h"
#include "core/process_limits.h"
#include "core/watchdog.h"
#include "eps/checkpoint/checkpoint_folders.h"
#include "eps/checkpoint/checkpoint_locks.h"
#include "eps/checkpoint/checkpoint_room.h"
#include "eps/checkpoint/checkpoint_writer.h"
#include "eps/checkpoint/manifest.h"
#include "models/hub/weights.h"
#include "optimizers/schedule.h"
#include "runtime/data/dataset.h"
#include "runtime/data/source_samples.h"
#include "runtime/divergence.h"
#include "runtime/engine.h"
#include "runtime/generator.h"
#include "runtime/hub_companions.h"
#include "runtime/parameter_access.h"
#include "runtime/plan/memory_contract.h"
#include "runtime/plan_run.h"
#include "runtime/read_ahead.h"
#include "runtime/resume.h"
#include "runtime/run_loop.h"
#include "runtime/run_requests.h"
#include "runtime/step_meter.h"
#include "runtime/task_metrics.h"
#include "runtime/tuning/prediction.h"

namespace l2l {

namespace {

using LoadProgress = std::function<void(std::uint64_t, std::uint64_t)>;

constexpr std::size_t kTraceSpans = 200'000;  // 9 MB here, 25 MB as a file; further ones are dropped and counted

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

}  // namespace

struct Trainer::Implementation {
  Implementation(const Options& options, const Measuring& how)
      : measuring(how),
        plan(runtime::plan_run(options, {}, &measuring)),
        checkpoint_size(runtime::checkpoint_size(plan)),
        contract(runtime::memory_contract(plan, checkpoint_size)),
        schedule(make_schedule(plan.options)),
        companions_from(plan.options.weights) {
    runtime::check_limits(plan, contract, runtime::Advice::planned);
    runtime::check_process_limits(plan, contract);
    const runtime::DatasetSettings settings = runtime::dataset_settings(plan.options);
    train = runtime::training_samples(plan.options, settings);
    validation = runtime::validation_samples(plan.options, settings);
    if (plan.options.mismatched) mismatched = runtime::make_samples(*plan.options.mismatched, settings);
    if (train) data_hash = train->hash();
  }

  ~Implementation() { requests.disconnect(); }

  // The engine; allocates everything on first use.
  runtime::Engine& running(const LoadProgress& loading = {}) {
    requests.check_aborted();
    if (handing_out)
      throw Error("the trainer is used within predict()'s take(): keep the values, and go on after predict()");
    if (!engine) {
      try {
        start(loading);
      } catch (...) {
        rethrow_with_limits();
      }
      requests.check_aborted();
    }
    return *engine;
  }
  // Makes all threads, and allocates all that a run needs.
  void start(const LoadProgress& loading) {
    const ThreadActivity listed("relay", 0);
    start_watchdog();  // the threads that draw or read the weights may hang, too
    const Watchdog::Watch watch(watchdog.get());
    prediction = predict(/*session=*/nullptr);  // before the engine: beside a small one a calibration is large
    if (train || validation) {
      reader =
          std::make_unique<runtime::ReadAhead>(plan.minibatch_shape(), static_cast<int>(plan.options.data.threads));
    }
    engine = make_engine(loading);
    requests.connect(engine->failure());
    if (generation) engine->start_generation(*generation);
    checkpoints.emplace(engine->store());
    memory_share = runtime::MemoryShare(prediction.memory_gb_per_second);
    if (watchdog) watchdog->set_limits(*hang_limits(visit(prediction.step_ms)));
  }

  // By what is known of the machine, and what is measured in `session`, unless it is null.
  StepPrediction predict(runtime::MeasuringSession* session) const {
    runtime::Calibration calibration;
    return runtime::predict_step(plan, calibration, session);
  }

  std::uint64_t samples_per_step() const {
    return static_cast<std::uint64_t>(plan.options.batch.micro_batch * plan.options.batch.micro_batches);
  }
  models::HubWeights open_weights() const;
  std::unique_ptr<runtime::Engine> make_engine(const LoadProgress& loading);
  void fill_training();
  std::optional<Evaluation> evaluate(const runtime::Samples& samples, const std::function<bool()>& stop);
  double learning_rate() const;
  StepReport run_step();
  void check_room(eps::DirectoryUse use) const;
  std::optional<std::chrono::duration<double>> visit(std::optional<double> step_ms) const;
  void start_watchdog();
  std::string how_to_go_on() const;
  void restore(const eps::RunState& state);

  runtime::RunRequests requests;
  runtime::RunState run;          // newest: in the checkpoint directory, that this run has written or goes on from
  runtime::OwnCheckpoint saving;  // that was started last, without its folder
  runtime::MeasuringSession measuring;
  const runtime::RunPlan plan;
  const eps::CheckpointSize checkpoint_size;
  MemoryContract contract;
  optimizers::Schedule schedule;
  std::filesystem::path companions_from;  // the Hugging Face directory that this model was last in; or empty
  std::unique_ptr<runtime::Samples> train, validation, mismatched;
  std::unique_ptr<runtime::ReadAhead> reader;  // of these; made with the engine
  std::unique_ptr<Trace> trace;
  std::unique_ptr<runtime::GenerationPlan> generation;
  std::unique_ptr<runtime::Engine> engine;
  std::optional<eps::RunLock> lock;                  // of the checkpoint directory, from the first claim on
  std::optional<eps::CheckpointWriter> checkpoints;  // made with the engine, as is the next
  StepPrediction prediction;                         // of a training step, from earlier measurements
  runtime::MemoryShare memory_share;                 // of updates
  std::unique_ptr<Watchdog> watchdog;                // made before the engine; none where the environment says so
  PeakResident peak;
  bool stepped = false;             // this Trainer has made a step
  bool handing_out = false;         // predict() calls a function with what lies in the minibatch's memory
  std::uint64_t step = 0;           // completed
  std::uint64_t data_position = 0;  // samples consumed
  std::uint64_t data_hash = 0;      // of `train`; constant after construction
  std::uint64_t base_hash = 0;      // of model.base, where that is set, from the first use of the engine on
};

models::HubWeights Trainer::Implementation::open_weights() const {
  return {plan.options.weights, plan.options.model, plan.model.layout, plan.options.new_head,
          plan.options.lora.adapter};
}

std::unique_ptr<runtime::Engine> Trainer::Implementation::make_engine(const LoadProgress& loading) {
  if (plan.options.weights.empty()) return std::make_unique<runtime::Engine>(plan, trace.get());
  models::HubWeights weights = open_weights();
  if (!plan.options.model.base.empty()) {
    base_hash = weights.hash();
    runtime::tell_rounded(plan, weights);
  }
  if (plan.options.run.allow_nonfinite) weights.allow_nonfinite();
  if (loading) weights.on_progress([&](Bytes done) { loading(done, weights.bytes()); });
  return std::make_unique<runtime::Engine>(plan, trace.get(), &weights);
}

void Trainer::Implementation::fill_training() {
  if (!train) throw BadInput("data.train: no training data; name at least one file, or give a source of samples");
  reader->fill(running().minibatch(), *train, runtime::DrawnFor::training, data_position);
  if (running().minibatch().predicted() == 0) {
    throw BadInput("the " + std::to_string(samples_per_step()) + " samples from number " +
                   std::to_string(data_position) + " on have no targets: there is nothing to learn from them");
  }
  data_position += samples_per_step();
}

std::optional<std::chrono::duration<double>> Trainer::Implementation::visit(std::optional<double> step_ms) const {
  if (!step_ms) return std::nullopt;
  const double visits = 2 * static_cast<double>(plan.model.layout.layers.size());
  return std::chrono::duration<double, std::milli>(*step_ms / visits);
}

void Trainer::Implementation::start_watchdog() {
  const std::optional<Watchdog::Limits> limits = hang_limits(visit(prediction.step_ms));
  if (!limits) return;
  const char* const advice =
      "what is on disk is whole: go on with --resume. L2L_HANG_SECONDS sets how long is too long; 0: never";
  watchdog = std::make_unique<Watchdog>(*limits, advice, report_hang);
}

// What to do after a flipped bit.
std::string Trainer::Implementation::how_to_go_on() const {
  const std::filesystem::path& directory = plan.options.checkpoint.directory;
  try {
    if (!directory.empty()) return ", then go on from " + eps::find_checkpoint(directory).string();
  } catch (const BadInput&) {  // there is none
  }
  return ", then start again: no checkpoint was saved yet";
}

// Of the next step.
double Trainer::Implementation::learning_rate() const {
  const ScheduleOptions& options = plan.options.schedule;
  if (!options.rate) return schedule.at(step);
  const double rate = options.rate(static_cast<std::int64_t>(step));
  if (std::isfinite(rate) && rate >= 0) return rate;
  throw BadInput("schedule.rate: gives " + std::to_string(rate) + " for step " + std::to_string(step) +
                 "; a learning rate is 0 or more");
}

StepReport Trainer::Implementation::run_step() {
  const runtime::StepMeter meter(running());
  const Watchdog::Watch watch(watchdog.get());
  run.reads = true;
  fill_training();
  run.reads = false;
  const double rate = learning_rate();
  const runtime::Engine::Result result = engine->train(step, rate);
  ++step;
  stepped = true;
  StepReport report = meter.report(engine->minibatch().rows());
  report.step = static_cast<std::int64_t>(step);
  report.loss = result.loss_sum / static_cast<double>(engine->minibatch().predicted());
  report.learning_rate = rate;
  report.gradient_norm = result.gradient_norm;
  report.loss_scale = result.loss_scale;
  report.skipped = result.skipped;
  report.stream_drift = result.drift;
  report.device_peak_bytes = plan.device_peak_bytes();
  report.host_bytes = peak.bytes();
  report.predicted_ms = prediction.step_ms;
  if (watchdog && !prediction.step_ms) watchdog->set_limits(*hang_limits(visit(report.step_ms)));
  report.eps_fraction = memory_share.of(report.eps_gb_per_second);
  return report;
}

void Trainer::Implementation::restore(const eps::RunState& state) {
  runtime::check_seed(plan, state);
  runtime::check_base(plan, state, base_hash);
  step = state.step;
  data_position = state.data_position;
  optimizers::LossScaler& scaler = engine->loss_scaler();
  if (scaler.is_dynamic() && state.loss_scale > 0) {
    scaler.restore(static_cast<double>(state.loss_scale), state.good_steps);
  }
}

// A run that saves once alone needs room for one.
void Trainer::Implementation::check_room(eps::DirectoryUse use) const {
  const CheckpointOptions& checkpoint = plan.options.checkpoint;
  if (checkpoint.directory.empty()) return;
  const bool once = checkpoint.every == 0 && checkpoint.minutes == 0;
  const int kept = static_cast<int>(checkpoint.keep) + (checkpoint.best.empty() ? 0 : 1);
  eps::check_room(checkpoint.directory, {checkpoint_size, once ? 1 : 2, once ? 1 : kept + 1}, use);
}

Trainer::Trainer(Options options, Measuring measuring)
    : implementation_(std::make_unique<Implementation>(options, measuring)) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

const Options& Trainer::options() const { return implementation_->plan.options; }
const MemoryContract& Trainer::contract() const { return implementation_->contract; }
std::int64_t Trainer::completed_steps() const { return static_cast<std::int64_t>(implementation_->step); }

StepPrediction Trainer::check_prediction() {
  Implementation& self = *implementation_;
  if (self.engine) throw Error("check_prediction(): call it before prepare() and before the first step");
  runtime::Calibration calibration;
  runtime::MeasuringSession thorough = self.measuring.thoroughly();
  return runtime::check_prediction(self.plan, calibration, thorough);
}

StepPrediction Trainer::predict(bool measure) {
  Implementation& self = *implementation_;
  if (measure && self.engine) throw Error("predict(): measure before prepare() and before the first step");
  return self.predict(measure ? &self.measuring : nullptr);
}

void Trainer::prepare(const std::function<void(std::uint64_t, std::uint64_t)>& loading) {
  implementation_->running(loading);
}

std::int64_t Trainer::check_resume(const std::filesystem::path& directory,
                                   const std::vector<std::string>& allowed) const {
  const Implementation& self = *implementation_;
  const std::filesystem::path folder = eps::find_checkpoint(eps::checkpoints_directory(directory));
  runtime::check_resumable(self.plan, folder, self.data_hash, allowed);
  const auto completed = static_cast<std::int64_t>(eps::read_manifest(folder).state.step);
  if (completed > 0) static_cast<void>(runtime::BestCheckpoint(options(), completed));
  return completed;
}

void Trainer::check_weights() const {
  const Implementation& self = *implementation_;
  if (!self.plan.options.weights.empty()) static_cast<void>(self.open_weights());
}

std::filesystem::path Trainer::resume(const std::filesystem::path& run, const std::vector<std::string>& allowed) {
  Implementation& self = *implementation_;
  if (self.step > 0) throw Error("resume(): call it before the first step");
  finish_save();
  const std::filesystem::path directory = eps::checkpoints_directory(run);
  const std::vector<std::filesystem::path> folders = eps::find_checkpoints(directory, /*warn=*/true);
  for (const std::filesystem::path& folder : folders) {
    try {
      const std::vector<std::string> told = runtime::check_resumable(self.plan, folder, self.data_hash, allowed);
      self.restore(eps::load_checkpoint(folder, self.running().store(), options().run.allow_nonfinite));
      if (self.plan.options.lora.rank == 0) self.companions_from = folder;
      for (const std::string& each : told) log(LogLevel::warning, each);
      runtime::warn_of_lost_steps(directory, folder, self.step);
      std::error_code ignored;
      const bool own = std::filesystem::equivalent(std::filesystem::absolute(folder).parent_path(),
                                                   options().checkpoint.directory, ignored);
      if (own) self.run.newest = {folder, completed_steps(), self.run.edits};
      return folder;
    } catch (const CorruptFile& error) {
      if (folder == folders.back()) throw;
      log(LogLevel::warning, std::string(error.what()) + "; trying an older checkpoint");
    }
  }
  throw Error("unreachable");
}

StepReport Trainer::step() {
  const ThreadActivity listed("relay", 0);
  try {
    return implementation_->run_step();
  } catch (const CorruptState& error) {
    throw CorruptState(error.what() + implementation_->how_to_go_on());
  } catch (const NumericError& error) {
    // As if the step had not begun.
    if (error.nothing_changed()) implementation_->data_position -= implementation_->samples_per_step();
    implementation_->checkpoints->wait();  // which may be of the checkpoint to go on from
    throw runtime::with_advice(error, options());
  }
}

RunResult Trainer::run(RunObserver& observer, const RunLimits& limits) {
  const ThreadActivity listed("relay", 0);  // between steps as well
  finish_save();                            // of before the run
  return runtime::RunLoop(*this, implementation_->requests, implementation_->run, observer, limits).run();
}

RunResult Trainer::run(const RunLimits& limits) {
  RunObserver nobody;
  return run(nobody, limits);
}

void Trainer::request_stop() { implementation_->requests.stop = true; }

void Trainer::request_save() { implementation_->requests.save = true; }

void Trainer::abort() { implementation_->requests.abort(); }

std::optional<double> Trainer::validation_loss(const std::function<bool()>& stop) {
  const std::optional<Evaluation> evaluation = evaluate(stop);
  return evaluation ? std::optional(evaluation->loss) : std::nullopt;
}

std::optional<Evaluation> Trainer::Implementation::evaluate(const runtime::Samples& samples,
                                                            const std::function<bool()>& stop) {
  Evaluation evaluation;
  const models::HeadKind head = plan.model.head_kind;
  runtime::TaskMetrics task(head, plan.model.labels, plan.options.model.label_names);
  const auto add = [&](std::span<const float> logits, std::int32_t target, bool begins) {
    task.add(logits, target, begins);
  };
  double sum = 0;
  for (std::uint64_t window = 0; window < samples.windows();) {
    if (stop && stop()) return std::nullopt;
    runtime::Minibatch& minibatch = running().minibatch();
    const Watchdog::Watch watch(watchdog.get());
    reader->fill(minibatch, samples, runtime::DrawnFor::validation, window);
    window += samples_per_step();
    evaluation.tokens += minibatch.predicted();
    sum += running().evaluate(step);
    if (head != models::HeadKind::language && head != models::HeadKind::custom) minibatch.for_each_labelled(add);
  }
  if (evaluation.tokens == 0) throw BadInput("the validation data have no targets: there is nothing to predict");
  evaluation.loss = sum / static_cast<double>(evaluation.tokens);
  evaluation.metrics = task.metrics();
  return evaluation;
}

void Trainer::predict(const SampleSource& source, const TakeOutputs& take) {
  struct HandingOut {
    bool& flag;
    explicit HandingOut(bool& of) : flag(of) { flag = true; }
    ~HandingOut() { flag = false; }
  };
  Implementation& self = *implementation_;
  const ThreadActivity listed("relay", 0);
  if (self.plan.model.head_kind != models::HeadKind::custom) {
    throw BadInput("predict(): is for model.architecture = \"custom\"; see logits() and generate()");
  }
  const std::shared_ptr<const SampleSource> borrowed(std::shared_ptr<const SampleSource>(), &source);
  const runtime::SourceSamples samples(borrowed, runtime::dataset_settings(self.plan.options));
  runtime::Minibatch& minibatch = self.running().minibatch();
  runtime::PreparedMinibatch prepared(self.plan.minibatch_shape());
  Workers alone("predict", 1);
  std::uint64_t next = 0;  // to hand out
  for (std::uint64_t first = 0; first < samples.windows(); first += self.samples_per_step()) {
    const Watchdog::Watch watch(self.watchdog.get());
    prepared.fill([](int) { return 1; },
                  [&](int i, const SampleView& sample) {
                    samples.validation_window(first + static_cast<std::uint64_t>(i), sample);
                  },
                  alone);
    minibatch.take(prepared);
    static_cast<void>(self.running().evaluate(self.step));
    const HandingOut scope(self.handing_out);
    minibatch.for_each_output([&](std::span<const float> values) {
      if (next < samples.windows()) take(next, values);
      ++next;
    });
  }
}

std::optional<Evaluation> Trainer::evaluate(const std::function<bool()>& stop) {
  Implementation& self = *implementation_;
  if (!self.validation) throw BadInput("data.validation: no validation data; name at least one file");
  std::optional<Evaluation> evaluation = self.evaluate(*self.validation, stop);
  if (!evaluation || !self.mismatched) return evaluation;
  const std::optional<Evaluation> mismatched = self.evaluate(*self.mismatched, stop);
  if (!mismatched) return std::nullopt;
  for (const auto& [name, value] : mismatched->metrics) evaluation->metrics.emplace_back(name + "_mismatched", value);
  return evaluation;
}

void Trainer::check_checkpoint_directory() const {
  if (!options().checkpoint.directory.empty()) eps::check_unlocked(options().checkpoint.directory);
  implementation_->check_room(eps::DirectoryUse::look);
}

void Trainer::claim_checkpoint_directory() {
  Implementation& self = *implementation_;
  if (self.lock || options().checkpoint.directory.empty()) return;
  self.check_room(eps::DirectoryUse::stay);
  self.lock.emplace(options().checkpoint.directory);
  eps::remove_stale(options().checkpoint.directory);
}

void Trainer::prune_checkpoints(const std::filesystem::path& newest) {
  claim_checkpoint_directory();
  eps::prune(options().checkpoint.directory, newest, static_cast<int>(options().checkpoint.keep));
}

void Trainer::start_save() {
  Implementation& self = *implementation_;
  const CheckpointOptions& checkpoint = self.plan.options.checkpoint;
  if (checkpoint.directory.empty()) throw BadInput("checkpoint.directory: not set; nowhere to save to");
  claim_checkpoint_directory();
  self.running();
  finish_save();
  Options options = self.plan.options;
  options.lora.adapter.clear();  // what it brought is in the checkpoint
  eps::RunState state{self.step, self.plan.options.run.seed, self.data_position, to_toml(options), self.data_hash};
  state.base_hash = self.base_hash;
  state.without_frozen = self.base_hash != 0 && options.lora.rank > 0;
  const optimizers::LossScaler& scaler = self.running().loss_scaler();
  if (scaler.is_dynamic()) {
    state.loss_scale = static_cast<std::uint64_t>(scaler.scale());
    state.good_steps = scaler.good_steps();
  }
  eps::Companions companions =
      runtime::hub_companions(self.plan.options.model, self.companions_from, self.plan.options.data.tokenizer);
  // No model that other programs could load.
  if (state.without_frozen || !options.model.blocks.empty()) companions.texts.erase("config.json");
  self.checkpoints->start(checkpoint.directory, state, static_cast<int>(checkpoint.keep), companions);
  self.saving = {{}, completed_steps(), self.run.edits};
}

bool Trainer::saving() const { return implementation_->checkpoints && implementation_->checkpoints->running(); }

std::filesystem::path Trainer::finish_save() {
  if (!implementation_->checkpoints) return {};
  const ThreadActivity listed("relay", 0);
  const ActivitySpan span(Doing::rests, "the wait for a checkpoint");
  std::filesystem::path folder;
  try {
    folder = implementation_->checkpoints->finish();
  } catch (const CorruptState& error) {
    throw CorruptState(error.what() + implementation_->how_to_go_on());
  }
  if (folder.empty()) return folder;
  implementation_->run.newest = implementation_->saving;
  implementation_->run.newest.folder = folder;
  if (implementation_->plan.options.lora.rank == 0) implementation_->companions_from = folder;
  return folder;
}

std::filesystem::path Trainer::save() {
  start_save();
  return finish_save();
}

std::vector<std::int32_t> Trainer::generate(std::span<const std::int32_t> prompt, const GenerateOptions& options) {
  const std::vector<std::vector<std::int32_t>> prompts{{prompt.begin(), prompt.end()}};
  return generate(prompts, options)[0];
}

std::vector<std::vector<std::int32_t>> Trainer::generate(const std::vector<std::vector<std::int32_t>>& prompts,
                                                         const GenerateOptions& options, const TakeToken& take) {
  return runtime::generate(implementation_->running(), implementation_->plan, implementation_->step, prompts, options,
                           take);
}

void Trainer::reserve_generation(const GenerationShape& shape) {
  Implementation& self = *implementation_;
  if (self.engine || self.generation) throw Error("reserve_generation(): call it once, right after construction");
  runtime::check_continues(self.plan);
  if (!runtime::can_cache(self.plan.model)) return;
  auto generation = std::make_unique<runtime::GenerationPlan>(self.plan, shape);
  runtime::add_generation(*generation, self.plan, self.contract);
  runtime::check_limits(self.plan, self.contract, runtime::Advice::planned);
  self.generation = std::move(generation);
}

void Trainer::logits(std::span<const std::int32_t> tokens, const TakeLogits& take) {
  runtime::predict_sequence(implementation_->running(), implementation_->plan, implementation_->step, tokens,
                            /*hidden=*/false, take);
}

void Trainer::hidden_states(std::span<const std::int32_t> tokens, const TakeHidden& take) {
  runtime::predict_sequence(implementation_->running(), implementation_->plan, implementation_->step, tokens,
                            /*hidden=*/true, take);
}

std::vector<Parameter> Trainer::parameters() const {
  return runtime::list_parameters(implementation_->plan.model.layout);
}

std::vector<GradientNorm> Trainer::gradient_norms() const {
  const Implementation& self = *implementation_;
  if (!self.stepped) return {};
  std::vector<GradientNorm> norms;
  for (const GroupSpec& group : self.plan.model.layout.groups) {
    norms.push_back({group.name, self.engine->store().gradient_norm(static_cast<GroupIndex>(norms.size()))});
  }
  return norms;
}

void Trainer::read_parameter(const std::string& name, ParameterPart part, std::int64_t first, std::span<float> values) {
  eps::ParameterStore& store = implementation_->running().store();
  store.complete_updates();
  runtime::read_parameter(store, name, part, first, values);
}

void Trainer::write_parameter(const std::string& name, ParameterPart part, std::int64_t first,
                              std::span<const float> values) {
  eps::ParameterStore& store = implementation_->running().store();
  store.complete_updates();
  implementation_->checkpoints->wait();
  runtime::write_parameter(store, name, part, first, values);
  ++implementation_->run.edits;
}

LinkCounters Trainer::link_counters() const {
  return implementation_->engine ? implementation_->engine->link_counters() : LinkCounters{};
}

std::uint64_t Trainer::device_peak_bytes() const { return implementation_->plan.device_peak_bytes(); }

std::uint64_t Trainer::host_peak_bytes() const { return implementation_->peak.bytes(); }

std::uint64_t Trainer::weights_hash() {
  eps::ParameterStore& store = implementation_->running().store();
  store.complete_updates();
  return store.state_hash();
}

std::string Trainer::describe_threads() { return l2l::describe_threads(); }

void Trainer::start_trace() {
  if (implementation_->engine) throw Error("start_trace(): call it right after construction");
  MemoryContract& contract = implementation_->contract;
  contract.host.push_back({"timeline (--trace)", Trace::bytes(kTraceSpans)});
  contract.host_bytes += Trace::bytes(kTraceSpans);
  runtime::check_limits(implementation_->plan, contract, runtime::Advice::planned);
  implementation_->trace = std::make_unique<Trace>(kTraceSpans);
  implementation_->plan.set_trace(implementation_->trace.get());
}

void Trainer::write_trace(const std::filesystem::path& file) const {
  if (!implementation_->trace) throw Error("write_trace(): start_trace() was not called");
  if (implementation_->engine) static_cast<void>(implementation_->engine->stalls());  // brings device times up to date
  implementation_->trace->write(file);
}

}  // namespace l2l

#include "l2l/trainer.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>

#include "core/allocator_roles.h"
#include "core/error_place.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/host_memory.h"
#include "core/process_limits.h"
#include "eps/checkpoint/manifest.h"
#include "l2l/version.h"
#include "models/exchange.h"
#include "models/hub/weights.h"
#include "runtime/divergence.h"
#include "runtime/options/architecture_defaults.h"
#include "runtime/options/batch_shape.h"
#include "runtime/options/options_table.h"
#include "runtime/parameter_access.h"
#include "runtime/plan/memory_contract.h"
#include "runtime/resume.h"
#include "runtime/trainer_implementation.h"
#include "runtime/tuning/kept_kernels.h"

namespace l2l {

namespace {

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

// Keys in which processes on several machines may differ: where things lie, and what a machine is given.
bool may_differ(const runtime::Key& key) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, key.name) != names.end();
  };
  if (std::holds_alternative<runtime::PathField>(key.field)) return true;
  if (key.section == "distributed") return key.name != "wire";
  if (key.section == "data") return is_one_of({"train", "source", "validation", "threads"});
  if (key.section == "device") return !is_one_of({"count", "execution", "tensor"});
  if (key.section == "transfer") return is_one_of({"prefetch", "link_bandwidth", "resident_layers"});
  return key.section == "eps" || key.section == "recompute";
}

// Every other layer is gathered from all processes once more for its backward pass.
std::string staying_layers(const runtime::RunPlan& plan) {
  std::string layers;
  for (int block = 1; block <= plan.model.blocks(); ++block) {
    if (plan.execution.placement(block).weights_stay) layers += " " + std::to_string(plan.model.block(block));
  }
  return layers;
}

std::string description(const runtime::Samples* samples) {
  if (samples == nullptr) return "none";
  return std::to_string(samples->windows()) + " samples, hash " + std::to_string(samples->hash());
}

}  // namespace

Trainer::Implementation::Implementation(const Options& options, const Measuring& how, const runtime::Ranks& of)
    : measuring(how),
      plan(runtime::plan_run(options, {}, &measuring, of.place())),
      checkpoint_size(runtime::checkpoint_size(plan)),
      schedule(make_schedule(plan.options)),
      companions_from(plan.options.weights) {
  const bool planned = plan.options.rank.count > of.count();  // with one process on each node
  message_bytes = planned ? collectives::mpi_buffer_bytes(1) : of.buffer_bytes();
  count_memory();
  runtime::check_limits(plan, contract, runtime::Advice::planned);
  runtime::check_process_limits(plan, contract);
  static_cast<void>(hang_limits(/*visit=*/std::nullopt));  // refuses L2L_HANG_SECONDS that are no number
  const RoleScope text(MemoryRole::text);
  const runtime::DatasetSettings settings = runtime::dataset_settings(plan.options);
  train = runtime::training_samples(plan.options, settings);
  validation = runtime::validation_samples(plan.options, settings);
  if (plan.options.mismatched) mismatched = runtime::make_samples(*plan.options.mismatched, settings);
  if (train) data_hash = train->hash();
  if (validation) run.validation_hash = validation->hash();
  for (const auto* const samples : {validation.get(), mismatched.get()}) {
    const std::uint64_t at_once = samples_per_step();
    if (samples != nullptr) run.validation_minibatches += (samples->windows() + at_once - 1) / at_once;
  }
  list = plan.model.exchange.initial;
  if (plan.model.exchange.most == 0) list.clear();
}

void Trainer::Implementation::count_memory() {
  const auto add = [&](const char* what, Bytes bytes) {
    if (bytes > 0) contract.host.push_back({what, bytes});
    contract.host_bytes += bytes;
  };
  contract = runtime::memory_contract(plan, checkpoint_size);
  add("messages between ranks", message_bytes);
  if (generation) runtime::add_generation(*generation, plan, contract);
  add("timeline (--trace)", trace_bytes);
}

void Trainer::Implementation::check_ranks(runtime::Ranks& others) {
  if (!others.several()) return;
  Options options = plan.options;
  std::string own = "version of L2L = " + std::string(version()) +
                    "\nhash of the training data = " + std::to_string(data_hash) +
                    "\nvalidation data = " + description(validation.get()) +
                    "\nfurther validation data = " + description(mismatched.get()) +
                    "\na directory for checkpoints = " + (options.checkpoint.directory.empty() ? "no" : "yes") + "\n";
  for (const runtime::Key& key : runtime::option_keys(options)) {
    if (may_differ(key)) continue;
    const std::string name = std::string(key.section) + "." + std::string(key.name);
    own += name + " = " + runtime::value_of(options, name) + "\n";
  }
  // What no key says: of a program's own layers, and of what a machine's devices make of the gradients.
  for (const GroupSpec& group : plan.model.layout.groups) {
    for (const ParameterSpec& each : group.parameters) {
      own += "parameter " + each.name + " = " + each.shape.to_string() + "\n";
    }
  }
  own += "gradients between ranks = " + std::to_string(plan.store.sent_gradients()) + " in " +
         std::string(name_of(plan.store.sent_type())) + "\n";
  if (plan.store.shards_wires()) own += "layers whose weights stay on the device =" + staying_layers(plan) + "\n";
  const std::vector<std::string> all = others.gather(own);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    std::istringstream first(all[0]), other(all[rank]);
    std::string expected, found;
    while (std::getline(first, expected) && std::getline(other, found)) {
      if (expected == found) continue;
      throw BadInput("rank " + std::to_string(rank) + " has " + found + ", but rank 0 has " + expected +
                     ": all processes must be given the same");
    }
  }
}

void Trainer::Implementation::measure_network(runtime::Ranks& others) {
  const bool known = plan.options.network > 0;  // which each is told by itself
  if (!others.several() || !others.any(!known)) return;
  const double measured = others.measure_bandwidth();
  if (!known) plan.options.network = measured;
}

void Trainer::Implementation::set_layers(std::vector<std::uint32_t> ids) {
  try {
    models::check_list(plan.model, ids);
  } catch (const BadInput& error) {
    throw BadInput(error.what(), of_key("model.reserve"));
  }
  std::string text;
  for (const std::uint32_t id : ids) text += std::to_string(id) + " ";
  if (ranks.several() && ranks.from_first(text) != text) {
    throw Error("set_layers(): rank " + std::to_string(ranks.rank()) + " is given other layers than rank 0");
  }
  if (engine) {
    plan.set_list(ids);
    engine->exchange_blocks(plan.model);
  }
  list = std::move(ids);
}

void Trainer::Implementation::check_use() {
  requests.check_aborted();
  if (!handing_out) return;
  throw Error(
      "the trainer is used within a function that it calls, such as take(), stop() or a metric: keep the values, and "
      "go on afterwards");
}

void Trainer::Implementation::check_no_observer(const char* function) const {
  if (!run.telling) return;
  throw Error(std::string(function) + "(): not from within a RunObserver: run() goes on when the observer returns");
}

runtime::Engine& Trainer::Implementation::running(const LoadProgress& loading) {
  check_use();
  if (plan.options.rank.count != ranks.count()) {
    throw BadInput("distributed.nodes = " + std::to_string(plan.options.rank.count) +
                       ", but one process was started, which can only plan for so many: start them with mpirun -n " +
                       std::to_string(plan.options.rank.count) + ", or set it to 0",
                   of_key("distributed.nodes"));
  }
  if (!engine) {
    try {
      start(loading);
    } catch (...) {
      stop();
      rethrow_with_limits();
    }
    requests.check_aborted();
  }
  return *engine;
}

void Trainer::Implementation::start(const LoadProgress& loading) {
  const ThreadActivity listed("relay", 0);
  start_watchdog();  // the threads that draw or read the weights may hang, too
  const Watchdog::Watch watch(watchdog.get());
  prediction = predict(/*session=*/nullptr);  // before the engine: beside a small one a calibration is large
  if (train || validation) {
    const RoleScope text(MemoryRole::text);
    reader = std::make_unique<runtime::ReadAhead>(plan.minibatch_shape(), static_cast<int>(plan.options.data.threads));
  }
  engine = make_engine(loading);
  if (!list.empty()) set_layers(list);
  requests.connect(engine->failure());
  if (generation) engine->start_generation(*generation);
  if (ranks.several()) {
    gather.emplace(engine->store(), *engine->state_peers());
  }
  checkpoints.emplace(engine->store(), gather ? &*gather : nullptr);
  memory_share = runtime::MemoryShare(prediction.memory_gb_per_second);
  if (watchdog) watchdog->set_limits(*hang_limits(visit(prediction.step_ms)));
}

void Trainer::Implementation::stop() {
  checkpoints.reset();
  gather.reset();
  requests.disconnect();
  engine.reset();
  reader.reset();
}

StepPrediction Trainer::Implementation::predict(runtime::MeasuringSession* session) const {
  runtime::Calibration calibration;
  return runtime::predict_step(plan, calibration, session);
}

models::HubWeights Trainer::Implementation::open_weights() const {
  const RoleScope staging(MemoryRole::staging);
  return {plan.options.weights,  plan.options.model,        plan.model.layout,
          plan.options.new_head, plan.options.lora.adapter, /*saves=*/plan.options.data.has_training()};
}

void Trainer::Implementation::check_same_weights(const models::HubWeights* weights) {
  if (!ranks.several()) return;
  std::string own = "random weights";
  if (weights != nullptr) own = "weights of hash " + to_hex(weights->fingerprint());
  if (base_hash != 0) own += ", a model.base of hash " + to_hex(base_hash);
  ranks.require_alike(ranks.gather(own), [](std::size_t rank, const auto& its, const auto& first) {
    throw BadInput("rank " + std::to_string(rank) + " begins with " + its + ", but rank 0 with " + first +
                       ": all processes must be given the same model.pretrained, model.base and lora.adapter",
                   of_key("model.pretrained"));
  });
}

std::unique_ptr<runtime::Engine> Trainer::Implementation::make_engine(const LoadProgress& loading) {
  std::unique_ptr<models::HubWeights> weights;
  ranks.together([&] {
    if (plan.options.weights.empty()) return;
    if (eps::has_manifest(plan.options.weights)) eps::verify_weights(plan.options.weights);
    weights.reset(new models::HubWeights(open_weights()));
    if (plan.options.new_classes) weights->leave_out_classes();
    if (!plan.options.model.base.empty()) {
      base_hash = weights->hash();
      runtime::tell_rounded(plan, *weights);
    }
    if (plan.options.run.allow_nonfinite) weights->allow_nonfinite();
    if (loading) weights->on_progress([&](Bytes done) { loading(done, weights->bytes()); });
  });
  check_same_weights(weights.get());
  return std::make_unique<runtime::Engine>(plan, trace.get(), weights.get(), &ranks);
}

void Trainer::Implementation::fill_training() {
  if (!train) {
    throw BadInput(
        "data.train: no training data; name at least one file, or give a source of samples "
        "(data.train_source)",
        of_key("data.train"));
  }
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
double Trainer::Implementation::learning_rate() {
  const ScheduleOptions& options = plan.options.schedule;
  if (!options.rate) return schedule.at(step);
  const double rate = options.rate(static_cast<std::int64_t>(step));
  if (ranks.several()) {
    ranks.require_alike(ranks.gather(std::span(&rate, 1)), [&](std::size_t rank, double its, double first) {
      if (std::isnan(its)) return;  // which that rank refuses
      throw BadInput("schedule.rate: gives " + std::to_string(its) + " for step " + std::to_string(step) + " on rank " +
                         std::to_string(rank) + ", but " + std::to_string(first) +
                         " on rank 0: it must be the same function of the step on all",
                     of_key("schedule.rate"));
    });
  }
  if (std::isfinite(rate) && rate >= 0) return rate;
  throw BadInput("schedule.rate: gives " + std::to_string(rate) + " for step " + std::to_string(step) +
                     "; a learning rate is 0 or more",
                 of_key("schedule.rate"));
}

StepReport Trainer::Implementation::run_step() {
  const runtime::StepMeter meter(running());
  const Watchdog::Watch watch(watchdog.get());
  run.prepares = true;
  const double rate = learning_rate();  // before fill_training() moves the data position
  fill_training();
  run.prepares = false;
  const runtime::Engine::Result result = engine->train(step, rate);
  ++step;
  stepped = true;
  StepReport report = meter.report(result.rows);
  report.step = static_cast<std::int64_t>(step);
  report.loss = result.loss_sum / static_cast<double>(result.predicted);
  report.learning_rate = rate;
  report.gradient_norm = result.gradient_norm;
  report.loss_scale = result.loss_scale;
  report.skipped = result.skipped;
  report.stream_drift = result.drift;
  report.device_peak_bytes = plan.device_peak_bytes();
  report.host_bytes = peak.bytes();
  if (list.empty()) report.predicted_ms = prediction.step_ms;
  if (watchdog && !prediction.step_ms) watchdog->set_limits(*hang_limits(visit(report.step_ms)));
  report.eps_fraction = memory_share.of(report.eps_gb_per_second);
  return report;
}

Trainer::Trainer(Options options) : Trainer(std::move(options), Measuring{.seconds = 0}) {}
Trainer::Trainer(Options options, Measuring measuring) {
  runtime::Ranks ranks = runtime::open_ranks(options.distributed.kind);
  const std::int64_t device_threads = options.device.threads, eps_threads = options.eps.threads;
  runtime::share_cores(options, ranks);
  const auto make = [&] { implementation_ = std::make_unique<Implementation>(options, measuring, ranks); };
  // What bits depend on rank 0 chooses for all: the microbatch, and the type of products. Whether a rank leaves it to
  // be chosen is its own matter until check_ranks().
  const bool leaves = runtime::leaves_micro_batch(options);
  if (ranks.several() && ranks.any(leaves)) {
    ranks.together([&] {
      if (ranks.rank() == 0) make();
    });
    const std::int64_t own = implementation_ ? implementation_->plan.options.batch.micro_batch : 0;
    const std::int64_t chosen = std::stoll(ranks.from_first(std::to_string(own)));
    if (leaves) options.batch.micro_batch = chosen;
  }
  ranks.together([&] {
    if (!implementation_) make();
  });
  if (ranks.several()) {
    const std::string type = ranks.from_first(implementation_->plan.options.precision.compute);
    ranks.together([&] {
      if (options.precision.compute != "auto" || implementation_->plan.options.precision.compute == type) return;
      options.precision.compute = type;
      implementation_.reset();
      make();
    });
  }
  ranks.together([&] { implementation_->check_ranks(ranks); });
  implementation_->kernels = implementation_->kernels_of_all(ranks);
  ranks.together([&] { implementation_->use_kernels(implementation_->kernels, "the first rank that has them"); });
  runtime::keep_kernels(implementation_->plan.devices, options.device.kernels_from);
  implementation_->device_threads = device_threads;
  implementation_->eps_threads = eps_threads;
  implementation_->measure_network(ranks);
  implementation_->ranks = std::move(ranks);
}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

const Options& Trainer::options() const { return implementation_->plan.options; }
const MemoryContract& Trainer::contract() const { return implementation_->contract; }
std::int64_t Trainer::completed_steps() const { return static_cast<std::int64_t>(implementation_->step); }
int Trainer::rank() const { return implementation_->ranks.rank(); }
bool Trainer::on_any_rank(bool here) { return implementation_->ranks.any(here); }
void Trainer::check_on_all_ranks(const std::function<void()>& check) { implementation_->ranks.together(check); }
bool Trainer::ended_together() const { return implementation_->ranks.is_end_agreed(); }
int Trainer::ranks() const { return implementation_->ranks.count(); }

StepPrediction Trainer::check_prediction() {
  Implementation& self = *implementation_;
  if (self.engine) throw Error("check_prediction(): call it before prepare() and before the first step");
  if (!self.list.empty()) throw BadInput("check_prediction(): takes a model whose layers are fixed (model.reserve)");
  runtime::Calibration calibration;
  runtime::MeasuringSession thorough = self.measuring.thoroughly();
  return runtime::check_prediction(self.plan, calibration, thorough);
}

StepPrediction Trainer::predict(bool measure) {
  Implementation& self = *implementation_;
  if (measure && self.engine) throw Error("predict(): measure before prepare() and before the first step");
  measure = measure && self.list.empty();  // else nothing is chosen by what is measured
  return self.predict(measure ? &self.measuring : nullptr);
}

void Trainer::prepare(const std::function<void(std::uint64_t, std::uint64_t)>& loading) {
  implementation_->guarded([&] { implementation_->running(loading); });
}

void Trainer::check_weights() const {
  const Implementation& self = *implementation_;
  if (!self.plan.options.weights.empty()) static_cast<void>(self.open_weights());
}

StepReport Trainer::step() {
  implementation_->check_no_observer("step");
  const ThreadActivity listed("relay", 0);
  return implementation_->guarded([&] {
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
  });
}

RunResult Trainer::run(RunObserver& observer, const RunLimits& limits) {
  implementation_->check_no_observer("run");
  const ThreadActivity listed("relay", 0);  // between steps as well
  finish_save();                            // of before the run
  Implementation& self = *implementation_;
  return self.guarded(
      [&] { return runtime::RunLoop(*this, self.ranks, self.requests, self.run, observer, limits).run(); });
}

RunResult Trainer::run(const RunLimits& limits) {
  RunObserver nobody;
  return run(nobody, limits);
}

void Trainer::request_stop() { implementation_->requests.stop = true; }

void Trainer::request_save() { implementation_->requests.save = true; }

void Trainer::abort() { implementation_->requests.abort(); }

std::vector<Parameter> Trainer::parameters() const {
  return runtime::list_parameters(implementation_->plan.model.layout);
}

void Trainer::set_layers(std::span<const std::uint32_t> ids) {
  implementation_->check_use();
  const bool exchanges = implementation_->plan.model.exchange.most > 0;
  if (exchanges && std::ranges::equal(ids, implementation_->list)) return;
  implementation_->set_layers({ids.begin(), ids.end()});
  ++implementation_->run.edits;
}

const std::vector<std::uint32_t>& Trainer::layers() const { return implementation_->list; }

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
  if (implementation_->gather) implementation_->checkpoints->wait();
  runtime::read_parameter(store, implementation_->gather ? &*implementation_->gather : nullptr, name, part, first,
                          values);
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

NetworkCounters Trainer::network_counters() const {
  const Implementation& self = *implementation_;
  if (!self.engine || self.engine->courier() == nullptr) return {};
  const auto [gradients_sent, gradients_received] = self.engine->courier()->traffic(eps::ExchangeKind::gradients);
  const auto [squares_sent, squares_received] = self.engine->courier()->traffic(eps::ExchangeKind::squares);
  const auto [weights_sent, weights_received] = self.engine->courier()->traffic(eps::ExchangeKind::wire) +
                                                self.engine->courier()->traffic(eps::ExchangeKind::visit);
  return {gradients_sent, gradients_received, squares_sent, squares_received, weights_sent, weights_received};
}

std::uint64_t Trainer::device_peak_bytes() const { return implementation_->plan.device_peak_bytes(); }

std::uint64_t Trainer::host_peak_bytes() const { return implementation_->peak.bytes(); }

std::uint64_t Trainer::weights_hash() {
  eps::ParameterStore& store = implementation_->running().store();
  store.complete_updates();
  if (!implementation_->gather) return store.state_hash();
  implementation_->checkpoints->wait();
  return implementation_->guarded([&] { return implementation_->gather->state_hash(); });
}

std::string Trainer::describe_threads() { return l2l::describe_threads(); }

void Trainer::start_trace() {
  if (implementation_->engine) throw Error("start_trace(): call it right after construction");
  implementation_->trace_bytes = Trace::bytes(kTraceSpans);
  implementation_->count_memory();
  runtime::check_limits(implementation_->plan, implementation_->contract, runtime::Advice::planned);
  implementation_->trace = std::make_unique<Trace>(kTraceSpans);
  implementation_->plan.set_trace(implementation_->trace.get());
}

void Trainer::write_trace(const std::filesystem::path& file) const {
  if (!implementation_->trace) throw Error("write_trace(): start_trace() was not called");
  if (implementation_->engine) static_cast<void>(implementation_->engine->stalls());  // brings device times up to date
  implementation_->trace->write(file);
}

void tune(const Options& options, const Measuring& measuring) {
  Options alone = options;
  alone.distributed.kind = "single";
  static_cast<void>(Trainer(std::move(alone), measuring).predict(/*measure=*/true));
}

}  // namespace l2l

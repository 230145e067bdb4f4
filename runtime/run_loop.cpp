#include "runtime/run_loop.h"

#include <cstdio>

#include "core/failure.h"
#include "core/log.h"
#include "core/scoped_flag.h"
#include "l2l/errors.h"

namespace l2l {

RunObserver::~RunObserver() = default;
void RunObserver::begin(std::int64_t, std::int64_t) {}
void RunObserver::step(const StepReport&) {}
void RunObserver::saving(std::int64_t, SaveReason) {}
void RunObserver::saved(const std::filesystem::path&) {}
void RunObserver::validating(std::int64_t) {}
void RunObserver::validation_goes_on(double) {}
void RunObserver::validated(std::int64_t, const Evaluation&) {}
void RunObserver::kept_best(const std::filesystem::path&) {}
void RunObserver::ending(RunEnd) {}

namespace runtime {
namespace {

namespace fs = std::filesystem;

constexpr double kLongRun = 30 * 60;  // seconds

}  // namespace

template <typename Call>
void RunLoop::tell(const Call& call) {
  const ScopedFlag scope(state_.telling);
  call(observer_);
}

RunLoop::RunLoop(Trainer& trainer, Ranks& ranks, RunRequests& requests, RunState& state, RunObserver& observer,
                 const RunLimits& limits)
    : trainer_(trainer),
      ranks_(ranks),
      requests_(requests),
      observer_(observer),
      options_(trainer.options()),
      saves_(!options_.checkpoint.directory.empty()),
      first_(trainer.completed_steps()),
      steps_(limits.steps >= 0 ? limits.steps : options_.run.steps),
      since_(limits.since),
      state_(state) {}

RunLoop::~RunLoop() { requests_.stop = false; }

RunResult RunLoop::run() {
  trainer_.prepare();
  begin();
  train();
  if (saves_) result_.checkpoint = save(SaveReason::end);
  if (!failure_.empty()) {
    throw Error(failure_ + "; the run stopped after step " + std::to_string(trainer_.completed_steps()) +
                (saves_ ? ", saved in " + result_.checkpoint.string() : ""));
  }
  if (options_.data.has_validation() && !is_validated()) validate();
  requests_.check_aborted();
  return std::move(result_);
}

void RunLoop::begin() {
  ranks_.require_alike(ranks_.gather(std::to_string(steps_)), [](std::size_t rank, const auto& its, const auto& first) {
    throw BadInput("rank " + std::to_string(rank) + " is to run until step " + its + ", rank 0 until step " + first +
                   ": all processes must be given the same --steps");
  });
  const bool writes = ranks_.rank() == 0;
  if (!options_.run.tensorboard.empty() && writes) events_.emplace(options_.run.tensorboard);
  if (saves_) trainer_.claim_checkpoint_directory();
  if (saves_ && writes) {
    set_aside_checkpoints(options_.checkpoint.directory, state_.newest.step);
    // A run that saves nothing more may have been killed before it removed the older ones.
    if (first_ >= steps_ && state_.newest.step == first_) trainer_.prune_checkpoints(state_.newest.folder);
  }
  best_.emplace(options_, state_.validation_hash, first_, writes);
  last_save_ = last_validation_ = Clock::now();
  tell([&](RunObserver& observer) { observer.begin(first_, steps_); });
}

void RunLoop::train() {
  if (ranks_.any(owes_validation())) validate();
  std::optional<RunEnd> end = ranks_.any(requests_.stop) ? std::optional(RunEnd::stopped) : std::nullopt;
  if (best_->exhausted()) end = RunEnd::patience;
  if (first_ >= steps_) end = RunEnd::steps;
  while (!end) {
    try {
      result_.last = trainer_.step();
    } catch (const NumericError& error) {
      end_diverged(error);
    } catch (const Aborted&) {
      throw;
    } catch (...) {  // schedule.rate may throw anything
      // Several ranks save together, and the others go on.
      const bool saves = saves_ && !ranks_.several();
      if (state_.prepares && result_.last && saves) log(LogLevel::warning, save_before_failure());
      throw;
    }
    take(*result_.last);
    end = reason_to_end();
  }
  result_.end = *end;
  tell([&](RunObserver& observer) { observer.ending(*end); });
}

void RunLoop::end_diverged(const NumericError& error) {
  try {
    finish_save();
  } catch (const Aborted&) {
    throw;
  } catch (...) {
    log(LogLevel::warning, "while the checkpoint begun before was finished: " + message_of_current_exception());
  }
  const bool unsaved = result_.last && state_.newest.step != trainer_.completed_steps();
  if (!error.nothing_changed() || !unsaved || !saves_) throw error;
  throw NumericError(error.what() + ("; " + save_before_failure()), /*nothing_changed=*/true);
}

// Saves the steps before the one that failed. Says what came of it.
std::string RunLoop::save_before_failure() {
  try {
    return "step " + std::to_string(trainer_.completed_steps()) + " is now saved: " + save(SaveReason::end).string();
  } catch (...) {  // an observer may throw anything
    return "the steps before could not be saved: " + message_of_current_exception();
  }
}

// After each step.
void RunLoop::take(const StepReport& report) {
  tell([&](RunObserver& observer) { observer.step(report); });
  draw(report.step, {{"loss", report.loss},
                     {"learning_rate", report.learning_rate},
                     {"gradient_norm", report.gradient_norm},
                     {"tokens_per_second", report.tokens_per_second},
                     {"step_ms", report.step_ms},
                     {"loss_scale", report.loss_scale}});
  due_ = agree_on_due(report.step);
  if (report.step == steps_ || due_.stop) return;
  warn_of_unsaved_work(report);
  if (saves_) save_if_due();
  if (due_.validation) validate();
}

RunLoop::Due RunLoop::agree_on_due(std::int64_t step) {
  const CheckpointOptions& checkpoint = options_.checkpoint;
  const bool own[] = {
      is_stopped(),
      requests_.save.exchange(false),
      due(step, checkpoint.every, last_save_, checkpoint.minutes),
      due(step, options_.run.validate_every, last_validation_, options_.run.validate_minutes),
      trainer_.saving(),
  };
  const std::vector<bool> any = ranks_.any_each(own);
  return {any[0], any[1], any[2], any[3], any[4]};
}

// Nothing while it goes on.
std::optional<RunEnd> RunLoop::reason_to_end() {
  if (trainer_.completed_steps() >= steps_) return RunEnd::steps;
  const std::chrono::duration<double> elapsed = Clock::now() - since_;
  const bool over = options_.run.seconds > 0 && elapsed.count() >= static_cast<double>(options_.run.seconds);
  const bool own[] = {is_stopped(), over};  // a save or a validation may have taken long
  const std::vector<bool> any = ranks_.any_each(own);
  if (any[0]) return RunEnd::stopped;
  if (best_->exhausted()) return RunEnd::patience;
  return any[1] ? std::optional(RunEnd::seconds) : std::nullopt;
}

bool RunLoop::due(std::int64_t step, std::int64_t every, Clock::time_point last, double minutes) {
  const std::chrono::duration<double, std::ratio<60>> elapsed = Clock::now() - last;
  return (every > 0 && step % every == 0) || (minutes > 0 && elapsed.count() >= minutes);
}

void RunLoop::save_if_due() {
  if (!due_.saving) finish_save();
  if (!due_.asked && !due_.save) return;
  finish_save();
  start_save(due_.asked ? SaveReason::asked : SaveReason::due);
}

void RunLoop::start_save(SaveReason reason) {
  last_save_ = Clock::now();
  tell([&](RunObserver& observer) { observer.saving(trainer_.completed_steps(), reason); });
  trainer_.start_save();
}

// The checkpoint of the completed steps, which may be there, or on its way.
fs::path RunLoop::save(SaveReason reason) {
  finish_save();
  if (state_.newest.step != trainer_.completed_steps() || state_.newest.edits != state_.edits) {
    start_save(reason);
    const fs::path folder = trainer_.finish_save();
    tell([&](RunObserver& observer) { observer.saved(folder); });
  }
  return state_.newest.folder;
}

// Waits for the checkpoint that is written beside training, if there is one.
void RunLoop::finish_save() {
  const fs::path folder = trainer_.finish_save();
  if (!folder.empty()) tell([&](RunObserver& observer) { observer.saved(folder); });
}

bool RunLoop::owes_validation() const {
  if (first_ == 0 || first_ >= steps_ || best_->has(first_)) return false;
  const std::int64_t every = options_.run.validate_every;
  return (every > 0 && first_ % every == 0) || best_->keeps(first_);
}

bool RunLoop::is_validated() const { return validated_ == std::pair(trainer_.completed_steps(), state_.edits); }

void RunLoop::validate() {
  if (ranks_.any(requests_.stop)) return;
  tell([&](RunObserver& observer) { observer.validating(trainer_.completed_steps()); });
  std::uint64_t done = 0;
  const std::optional<Evaluation> evaluation = trainer_.evaluate([&] {
    const double share = static_cast<double>(done++) / static_cast<double>(state_.validation_minibatches);
    tell([&](RunObserver& observer) { observer.validation_goes_on(share); });
    return requests_.stop.load();
  });
  last_validation_ = Clock::now();
  if (!evaluation) return;
  result_.validation = evaluation;
  const std::int64_t step = trainer_.completed_steps();
  validated_ = {step, state_.edits};
  std::vector<std::pair<std::string, double>> scalars = {{"validation_loss", evaluation->loss}};
  for (const auto& [name, value] : evaluation->metrics) scalars.emplace_back("metrics/" + name, value);
  draw(step, scalars);
  const bool better = best_->take(step, *evaluation);
  if (better) best_->keep(save(SaveReason::best));  // before an observer changes what it is of
  tell([&](RunObserver& observer) { observer.validated(step, *evaluation); });
  best_->record();  // a kill before it leaves the validation to be made again: owes_validation()
  if (better) tell([&](RunObserver& observer) { observer.kept_best(options_.checkpoint.directory / "best"); });
}

// Once, when the second step has shown how long the run will take.
void RunLoop::warn_of_unsaved_work(const StepReport& report) const {
  const CheckpointOptions& checkpoint = options_.checkpoint;
  if (report.step != first_ + 2 || !saves_ || checkpoint.every > 0 || checkpoint.minutes > 0) return;
  const double seconds = static_cast<double>(steps_ - report.step) * report.step_ms * 1e-3;
  if (seconds < kLongRun) return;
  char hours[32];
  std::snprintf(hours, sizeof hours, "%.1f", seconds / 3600);
  log(LogLevel::warning, std::string("nothing is saved before the end, in about ") + hours +
                             " h: set checkpoint.minutes or checkpoint.every, or ask for a save "
                             "(of l2l-train with SIGUSR1)");
}

void RunLoop::draw(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  if (!events_) return;
  try {
    events_->add(step, scalars);
  } catch (const Error& error) {
    failure_ = std::string("run.tensorboard: ") + error.what();
  }
}

}  // namespace runtime
}  // namespace l2l

#include "tools/train/run.h"

#include <fstream>
#include <iostream>

#include "l2l/errors.h"
#include "tools/output_file.h"
#include "tools/report/page.h"
#include "tools/tables.h"
#include "tools/train/next_command.h"

namespace l2l::tools {
namespace {

namespace fs = std::filesystem;

constexpr double kLongRun = 30 * 60;  // seconds
// Why runs end, of those that are finished.
constexpr std::string_view kStepsDone = "steps", kPatienceOver = "patience";

}  // namespace

Run::Run(const TrainArguments& arguments, Trainer& trainer, Signals& signals, Warnings& warnings)
    : arguments_(arguments),
      trainer_(trainer),
      signals_(signals),
      warnings_(warnings),
      options_(trainer.options()),
      steps_(arguments.steps >= 0 ? arguments.steps : options_.run.steps) {}

void Run::check() const {
  check_outputs();
  trainer_.check_checkpoint_directory();
  if (arguments_.resume.empty()) {
    if (arguments_.dry_run) trainer_.check_weights();  // else prepare() does, before anything is written
    return;
  }
  const std::int64_t completed = trainer_.check_resume(arguments_.resume, arguments_.allow_change);
  if (completed > 0) static_cast<void>(BestCheckpoint(options_, completed));  // reads what it has to go on with
}

void Run::check_outputs() const {
  const fs::path folder = arguments_.output;
  std::error_code ignored;
  const bool makes_folder = !folder.empty() && !fs::exists(folder, ignored);
  const auto check_file = [&](const fs::path& file, const std::string& option, IsOurs ours) {
    if (!makes_folder || file.parent_path() != folder) check_ours(file, option, ours);
  };
  check_folder(folder, "--output");
  check_folder(options_.run.tensorboard, "run.tensorboard");
  check_file(arguments_.metrics, "--metrics", is_metrics);
  check_file(arguments_.trace, "--trace", is_trace);
}

int Run::run() {
  {
    ByteProgress loading("loading", arguments_.quiet);
    trainer_.prepare([&](std::uint64_t done, std::uint64_t all) { loading.show(done, all); });
  }
  begin(resume());
  train();
  const fs::path checkpoint = save();
  if (!metrics_->failure().empty()) {
    throw Error(metrics_->failure() + "; the run stopped after step " + std::to_string(trainer_.completed_steps()) +
                ", saved in " + checkpoint.string() + ": continue with --resume");
  }
  if (!options_.data.validation.empty()) validate(checkpoint);
  show_run();
  if (!arguments_.trace.empty()) trainer_.write_trace(arguments_.trace);
  if (!finished()) say(next_command(arguments_, kUnfinished, options_.checkpoint.directory));
  const std::string line = json_text(summary(checkpoint));
  if (!(std::cout << line << std::endl)) {
    throw Error("standard output cannot be written; the run is done and saved, and its last line is " + line);
  }
  return finished() || !arguments_.must_finish ? kSuccess : kUnfinished;
}

// Why the run ends here.
std::string_view Run::reason_to_end() const {
  if (trainer_.completed_steps() >= steps_) return kStepsDone;
  if (signals_.stop()) return "interrupt";
  return best_->exhausted() ? kPatienceOver : "seconds";
}

bool Run::finished() const { return reason_ == kStepsDone || reason_ == kPatienceOver; }

// Checkpoints of up to how many steps, in the run's own directory, belong to it.
std::int64_t Run::resume() {
  if (arguments_.resume.empty()) return -1;
  const fs::path folder = trainer_.resume(arguments_.resume, arguments_.allow_change);
  say("resumed from " + folder.string());
  if (const std::string nothing = nothing_left(); !nothing.empty()) print_message(nothing);
  std::error_code ignored;
  const bool own = fs::equivalent(fs::absolute(folder).parent_path(), options_.checkpoint.directory, ignored);
  if (!own) return -1;
  if (!nothing_left().empty()) saved_ = folder, saved_step_ = trainer_.completed_steps();
  return trainer_.completed_steps();
}

// Makes the files of the run. `kept`: up to how many steps checkpoints stay where they are.
void Run::begin(std::int64_t kept) {
  const std::int64_t completed = trainer_.completed_steps();
  check_outputs();  // again: loading may have taken long
  trainer_.claim_checkpoint_directory();
  make_folder();
  if (!arguments_.trace.empty()) {
    make_room(arguments_.trace, "--trace", is_trace);
    if (!std::ofstream(arguments_.trace)) throw BadInput("--trace " + arguments_.trace + ": cannot be written");
  }
  metrics_.emplace(arguments_.metrics, completed, options_.run.tensorboard);
  set_aside_checkpoints(options_.checkpoint.directory, kept);
  if (!saved_.empty()) trainer_.prune_checkpoints(saved_);
  best_.emplace(options_, completed);
  log_.emplace(arguments_.output);
  record_.emplace(arguments_.output.empty() ? fs::path() : fs::path(arguments_.output) / "run.json", trainer_,
                  completed);
  show_run();
  signals_.begin(options_.checkpoint.directory.string());
}

// With the config that makes the same run again, unless it has one.
void Run::make_folder() {
  if (arguments_.output.empty()) return;
  const fs::path folder = arguments_.output, config = folder / "config.toml";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw BadInput("--output " + folder.string() + ": cannot be made: " + error.message());
  if (!fs::exists(config)) replace_file(config, to_toml(with_absolute_paths(options_)));
}

void Run::train() {
  progress_.emplace(trainer_.completed_steps(), steps_, arguments_.quiet);
  last_save_ = last_validation_ = Clock::now();
  signals_.show_step(trainer_.completed_steps(), 0);
  try {
    if (!signals_.stop()) trainer_.train(steps_, [this](const StepReport& report) { return take(report); });
  } catch (const NumericError& error) {
    end_diverged(error);
  }
  reason_ = reason_to_end();
  progress_->finish();
  if (const std::optional<double> ratio = progress_->measured_over_predicted()) {
    say(print("a step took %.2f times what was predicted (median)", *ratio));
  }
  if (signals_.stop()) {
    say("interrupted by " + signals_.stopped_by() + ": step " + std::to_string(trainer_.completed_steps()) +
        " is finished; saving");
  }
}

// Saves the steps before the one that failed where they can be.
void Run::end_diverged(const NumericError& error) {
  progress_->finish();
  tell_saved();
  show_run();
  const bool unsaved = progress_->count() > 0 && saved_step_ != trainer_.completed_steps();
  if (!error.nothing_changed() || !unsaved) throw error;
  std::string saved;
  try {
    saved = "step " + std::to_string(trainer_.completed_steps()) + " is now saved: " + save().string();
  } catch (const Error& failure) {
    saved = std::string("the steps before could not be saved: ") + failure.what();
  }
  throw Error(error.what() + ("; " + saved));
}

// After each step; false when it was the last.
bool Run::take(const StepReport& report) {
  last_ = report;
  signals_.show_step(report.step, report.step_ms);
  progress_->show(report);
  if (!metrics_->add(report)) return false;
  if (report.step == steps_) return go_on();
  warn_of_unsaved_work(report);
  save_if_due(report);
  if (due(report.step, options_.run.validate_every, last_validation_, options_.run.validate_minutes)) validate();
  if (best_->exhausted()) {
    say("no better " + options_.checkpoint.best + " in " + std::to_string(options_.run.patience) +
        " validations: stopping after step " + std::to_string(report.step));
    return false;
  }
  return metrics_->failure().empty() && go_on();
}

bool Run::go_on() const {
  const std::chrono::duration<double> elapsed = Clock::now() - start_;
  return !signals_.stop() && (options_.run.seconds == 0 || elapsed.count() < static_cast<double>(options_.run.seconds));
}

bool Run::due(std::int64_t step, std::int64_t every, Clock::time_point last, double minutes) {
  const std::chrono::duration<double, std::ratio<60>> elapsed = Clock::now() - last;
  return (every > 0 && step % every == 0) || (minutes > 0 && elapsed.count() >= minutes);
}

void Run::save_if_due(const StepReport& report) {
  if (!trainer_.saving()) tell_saved();
  const bool asked = signals_.take_save_request();
  if (asked)
    say("SIGUSR1: saving step " + std::to_string(report.step) + " in " + options_.checkpoint.directory.string());
  if (!asked && !due(report.step, options_.checkpoint.every, last_save_, options_.checkpoint.minutes)) return;
  tell_saved();
  last_save_ = Clock::now();
  trainer_.start_save();
  saved_step_ = report.step;
}

// Once, when the second step has shown how long the run will take.
void Run::warn_of_unsaved_work(const StepReport& report) {
  if (progress_->count() != 2 || options_.checkpoint.every > 0 || options_.checkpoint.minutes > 0) return;
  const double seconds = static_cast<double>(steps_ - report.step) * report.step_ms * 1e-3;
  if (seconds < kLongRun) return;
  warnings_.add(LogLevel::warning, print("nothing is saved before the end, in about %.1f h: set checkpoint.minutes or "
                                         "checkpoint.every, or send SIGUSR1",
                                         seconds / 3600));
}

void Run::validate(fs::path saved) {
  const std::optional<Trainer::Evaluation> evaluation = trainer_.evaluate([this] { return signals_.stop(); });
  last_validation_ = Clock::now();
  if (!evaluation) return;
  validation_ = evaluation;
  const std::int64_t step = trainer_.completed_steps();
  std::string line = "step " + std::to_string(step) + "  validation loss " + std::to_string(validation_->loss);
  for (const auto& [name, value] : validation_->metrics) line += "  " + name + " " + std::to_string(value);
  say(line);
  progress_->show_validation(*validation_);
  metrics_->add(step, *validation_);
  if (best_->take(step, *validation_)) {
    best_->keep(saved.empty() ? save() : saved);
    say("the best so far: " + (options_.checkpoint.directory / "best").string());
  }
  show_run();
}

// The checkpoint of the completed steps, which may be on its way already.
fs::path Run::save() {
  signals_.show_saving();
  tell_saved();
  if (saved_step_ == trainer_.completed_steps()) return saved_;
  last_save_ = Clock::now();
  saved_ = trainer_.save();
  saved_step_ = trainer_.completed_steps();
  return saved_;
}

// The checkpoint that is written beside training, if there is one; waits for it, and ends the run when it failed.
void Run::tell_saved() {
  const fs::path folder = trainer_.finish_save();
  if (folder.empty()) return;
  saved_ = folder;
  say("saved " + folder.string());
}

void Run::show_run() {
  if (arguments_.output.empty()) return;
  const fs::path folder = arguments_.output;
  try {
    record_->write(warnings_);
    if (fs::exists(folder / "metrics.jsonl")) {
      replace_file(folder / "report.html", report_page({&log_->read(), 1}));
    }
  } catch (const Error& error) {
    say(std::string("report: ") + error.what());
  }
}

void Run::say(const std::string& message) {
  if (arguments_.quiet) return;
  if (progress_) progress_->finish();
  print_message(message);
}

std::string Run::nothing_left() const {
  const std::int64_t completed = trainer_.completed_steps();
  if (arguments_.resume.empty() || last_ || completed < steps_) return "";
  return "already at " + std::to_string(completed) + " of " + std::to_string(steps_) + " steps: raise " +
         (arguments_.steps >= 0 ? "--steps" : "run.steps");
}

nlohmann::ordered_json Run::summary(const fs::path& checkpoint) {
  nlohmann::ordered_json summary;
  summary["steps"] = trainer_.completed_steps();
  summary["finished"] = finished();
  summary["reason"] = reason_;
  if (const std::string nothing = nothing_left(); !nothing.empty()) {
    summary["message"] = nothing;
  } else {
    summary["loss"] = or_null(last_ ? std::optional(last_->loss) : std::nullopt);
  }
  summary["validation_loss"] = or_null(validation_ ? std::optional(validation_->loss) : std::nullopt);
  summary["metrics"] = json_of(validation_ ? validation_->metrics : decltype(validation_->metrics){});
  summary["tokens_per_second"] = progress_->tokens_per_second();
  summary["measured_over_predicted"] = or_null(progress_->measured_over_predicted());
  summary["device_peak_bytes"] = trainer_.device_peak_bytes();
  summary["host_bytes"] = trainer_.host_peak_bytes();
  summary["pinned_bytes"] = trainer_.contract().pinned_bytes;
  summary["predicted_device_bytes"] = trainer_.contract().device_bytes;
  summary["predicted_host_bytes"] = trainer_.contract().host_bytes;
  summary["checkpoint"] = checkpoint.string();
  summary["weights_hash"] = print("%016llx", static_cast<unsigned long long>(trainer_.weights_hash()));
  return summary;
}

}  // namespace l2l::tools

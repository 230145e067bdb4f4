// One run of l2l-train, from the loaded model to the last line.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "core/json.h"
#include "l2l/trainer.h"
#include "tools/best_checkpoint.h"
#include "tools/progress.h"
#include "tools/report/run_log.h"
#include "tools/train/arguments.h"
#include "tools/train/metrics_file.h"
#include "tools/train/run_record.h"
#include "tools/train/signals.h"

namespace l2l::tools {

// Thread-bound.
class Run {
 public:
  Run(const TrainArguments& arguments, Trainer& trainer, Signals& signals, Warnings& warnings);

  // Throws BadInput where what run() would write cannot be written, or what it would read cannot be read, as far as
  // that shows before weights are loaded. Leaves nothing behind.
  void check() const;
  // Trains, validates, saves; returns the exit status. All that can be refused is refused before anything is written.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  void check_outputs() const;
  std::int64_t resume();
  void begin(std::int64_t kept);
  void make_folder();
  void train();  // and sets reason_
  bool take(const StepReport& report);
  [[noreturn]] void end_diverged(const NumericError& error);
  bool go_on() const;
  std::string_view reason_to_end() const;
  bool finished() const;
  // Whether what is due every so many steps, or minutes after `last`, is due after this step.
  static bool due(std::int64_t step, std::int64_t every, Clock::time_point last, double minutes);
  void save_if_due(const StepReport& report);
  void warn_of_unsaved_work(const StepReport& report);
  // `saved`: the checkpoint of this step, if there is one. Into the metrics, too; nothing when interrupted.
  void validate(std::filesystem::path saved = {});
  std::filesystem::path save();
  void tell_saved();
  // What a run's folder shows: run.json and report.html. Failing to write these does not end the run.
  void show_run();
  void say(const std::string& message);
  // "already at 40 of 40 steps: raise run.steps", where nothing was left to train.
  std::string nothing_left() const;
  nlohmann::ordered_json summary(const std::filesystem::path& checkpoint);

  const TrainArguments& arguments_;
  Trainer& trainer_;
  Signals& signals_;
  Warnings& warnings_;
  const Options& options_;
  const std::int64_t steps_;  // where this run ends; the schedule's length stays run.steps
  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_save_ = start_, last_validation_ = start_;
  std::string_view reason_;             // why the run ended
  std::int64_t saved_step_ = -1;        // of the save that was begun last
  std::filesystem::path saved_;         // the checkpoint that was finished last
  std::optional<MetricsFile> metrics_;  // from begin() on, as are the next four
  std::optional<RunLogReader> log_;
  std::optional<RunRecord> record_;
  std::optional<BestCheckpoint> best_;
  std::optional<Progress> progress_;
  std::optional<StepReport> last_;
  std::optional<Trainer::Evaluation> validation_;
};

}  // namespace l2l::tools

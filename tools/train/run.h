// One run of l2l-train, from the loaded model to the last line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/json.h"
#include "l2l/trainer.h"
#include "tools/progress.h"
#include "tools/report/run_log.h"
#include "tools/train/arguments.h"
#include "tools/train/metrics_file.h"
#include "tools/train/run_record.h"
#include "tools/train/signals.h"

namespace l2l::tools {

// Thread-bound.
class Run final : RunObserver {
 public:
  Run(const TrainArguments& arguments, Trainer& trainer, Signals& signals, Warnings& warnings);
  ~Run() override;

  // Throws BadInput where what run() would write cannot be written, or what it would read cannot be read, as far as
  // that shows before weights are loaded. Leaves nothing behind.
  void check() const;
  // Trains, validates, saves; returns the exit status. All that can be refused is refused before anything is written.
  int run();
  bool made_steps() const { return stepped_; }

 private:
  void check_outputs() const;
  void resume();
  void make_outputs();
  void make_folder();
  void keep_settings(const std::filesystem::path& folder, const ModelOptions& begun);

  // As Trainer::run() tells.
  void begin(std::int64_t completed, std::int64_t steps) override;
  void step(const StepReport& report) override;
  void saving(std::int64_t step, SaveReason reason) override;
  void saved(const std::filesystem::path& checkpoint) override;
  void validating(std::int64_t step) override;
  void validation_goes_on(double share) override;
  void validated(std::int64_t step, const Evaluation& evaluation) override;
  void kept_best(const std::filesystem::path& checkpoint) override;
  void ending(RunEnd end) override;

  // What a run's folder shows: run.json and report.html. Failing to write these does not end the run.
  void show_run();
  void say(const std::string& message);
  // "already at 40 of 40 steps: raise run.steps", where nothing was left to train.
  std::string nothing_left() const;
  nlohmann::ordered_json summary(const RunResult& result);

  const TrainArguments& arguments_;
  Trainer& trainer_;
  Signals& signals_;
  Warnings& warnings_;
  const Options& options_;
  const RunLimits limits_;
  const std::int64_t steps_;  // where this run ends; the schedule's length stays run.steps
  bool stepped_ = false, ending_ = false;
  std::int64_t validated_step_ = -1;    // the last one that was validated
  std::optional<Options> before_;       // settings of the checkpoint that it goes on from, where these are others now
  std::optional<MetricsFile> metrics_;  // from make_outputs() on, as are the next two
  std::optional<RunLogReader> log_;
  std::optional<RunRecord> record_;
  std::optional<Progress> progress_;  // from begin() on
};

}  // namespace l2l::tools

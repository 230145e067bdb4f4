// l2l-train: trains the model of a config. Messages on stderr; the last line on stdout is one JSON object.
#include <csignal>
#include <fstream>
#include <iostream>
#include <optional>

#include <nlohmann/json.hpp>

#include "l2l/l2l.h"
#include "tools/command.h"
#include "tools/contract_table.h"
#include "tools/progress.h"

namespace l2l::tools {
namespace {

struct Arguments {
  ConfigArguments config;
  std::int64_t steps = -1;
  std::string resume, metrics, trace;
  bool dry_run = false, quiet = false;
};

volatile std::sig_atomic_t interrupted = 0;

// The first signal ends the run after its step; a second one kills, as usual.
void on_signal(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

Options options_of(const Arguments& arguments) {
  Options options = arguments.config.load();
  if (options.data.train.empty())
    throw BadInput(arguments.config.config + ": data.train: missing; name at least one file");
  if (options.checkpoint.directory.empty()) {
    options.checkpoint.directory = "checkpoints/" + std::filesystem::path(arguments.config.config).stem().string();
  }
  return options;
}

class Run {
 public:
  Run(const Arguments& arguments, Trainer& trainer)
      : arguments_(arguments),
        trainer_(trainer),
        options_(trainer.options()),
        steps_(arguments.steps >= 0 ? arguments.steps : options_.run.steps) {}

  int run();

 private:
  void open_metrics();
  void train();
  void after_step(const StepReport& report, Progress& progress);
  void say(const std::string& message, Progress& progress) const;
  nlohmann::ordered_json summary(const std::filesystem::path& checkpoint);

  const Arguments& arguments_;
  Trainer& trainer_;
  const Options& options_;
  const std::int64_t steps_;  // where this run ends; the schedule's length stays run.steps
  std::ofstream metrics_;
  std::optional<StepReport> last_;
  std::optional<double> validation_loss_;
  double tokens_per_second_ = 0;
};

int Run::run() {
  if (!arguments_.trace.empty()) trainer_.start_trace();
  if (!arguments_.resume.empty()) trainer_.resume(arguments_.resume);
  if (arguments_.resume.empty()) set_aside_checkpoints(options_.checkpoint.directory);
  open_metrics();
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  train();
  const std::filesystem::path checkpoint = trainer_.save();
  if (!options_.data.validation.empty() && interrupted == 0) validation_loss_ = trainer_.validation_loss();
  if (!arguments_.trace.empty()) trainer_.write_trace(arguments_.trace);
  std::cout << summary(checkpoint).dump() << std::endl;
  return kSuccess;
}

void Run::open_metrics() {
  if (arguments_.metrics.empty()) return;
  metrics_.open(arguments_.metrics, arguments_.resume.empty() ? std::ios::trunc : std::ios::app);
  if (!metrics_) throw BadInput("--metrics " + arguments_.metrics + ": cannot be written");
}

void Run::train() {
  Progress progress(trainer_.completed_steps(), steps_, arguments_.quiet);
  while (trainer_.completed_steps() < steps_ && interrupted == 0) {
    last_ = trainer_.step();
    progress.show(*last_);
    after_step(*last_, progress);
  }
  progress.finish();
  tokens_per_second_ = progress.tokens_per_second();
  if (interrupted != 0 && !arguments_.quiet) {
    std::cerr << "interrupted: step " << trainer_.completed_steps() << " is finished; saving\n";
  }
}

void Run::after_step(const StepReport& report, Progress& progress) {
  if (metrics_.is_open() && !(metrics_ << to_json(report) << std::endl)) {
    throw Error("--metrics " + arguments_.metrics + ": write failed");
  }
  const bool more = report.step < steps_;
  if (more && options_.run.validate_every > 0 && report.step % options_.run.validate_every == 0) {
    validation_loss_ = trainer_.validation_loss();
    say("step " + std::to_string(report.step) + "  validation loss " + std::to_string(*validation_loss_), progress);
  }
  if (more && options_.checkpoint.every > 0 && report.step % options_.checkpoint.every == 0) {
    say("saved " + trainer_.save().string(), progress);
  }
}

void Run::say(const std::string& message, Progress& progress) const {
  if (arguments_.quiet) return;
  progress.finish();
  std::cerr << message << "\n";
}

nlohmann::ordered_json Run::summary(const std::filesystem::path& checkpoint) {
  nlohmann::ordered_json summary;
  summary["steps"] = trainer_.completed_steps();
  summary["loss"] = last_ ? nlohmann::json(last_->loss) : nlohmann::json(nullptr);
  summary["validation_loss"] = validation_loss_ ? nlohmann::json(*validation_loss_) : nlohmann::json(nullptr);
  summary["tokens_per_second"] = tokens_per_second_;
  summary["device_peak_bytes"] = trainer_.device_peak_bytes();
  summary["host_bytes"] = trainer_.host_peak_bytes();
  summary["pinned_bytes"] = trainer_.contract().pinned_bytes;
  summary["predicted_device_bytes"] = trainer_.contract().device_bytes;
  summary["predicted_host_bytes"] = trainer_.contract().host_bytes;
  summary["checkpoint"] = checkpoint.string();
  summary["weights_hash"] = trainer_.weights_hash();
  return summary;
}

int train(const Arguments& arguments) {
  Trainer trainer(options_of(arguments));
  if (!arguments.quiet) print_contract(std::cerr, trainer.contract(), trainer.options());
  return arguments.dry_run ? kSuccess : Run(arguments, trainer).run();
}

}  // namespace
}  // namespace l2l::tools

int main(int argc, char** argv) {
  using namespace l2l::tools;
  CLI::App app("Trains a transformer larger than its device, layer by layer.", "l2l-train");
  Arguments arguments;
  arguments.config.add_to(app);
  app.add_option(
         "--steps", arguments.steps,
         "stop after this many steps in total, also after a resume (default and length of the schedule: run.steps)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--resume", arguments.resume, "continue from the newest good checkpoint below this directory");
  app.add_flag("--dry-run", arguments.dry_run, "check config and data, print the memory contract, and stop");
  app.add_option("--metrics", arguments.metrics, "write one JSON object per step to this file");
  app.add_option("--trace", arguments.trace, "write a timeline to this file (Chrome trace JSON; opens in Perfetto)");
  app.add_flag("--quiet", arguments.quiet, "no contract and no progress");
  return run(app, argc, argv, [&] { return train(arguments); });
}

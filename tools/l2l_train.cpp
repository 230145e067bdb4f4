// l2l-train: trains the model of a config. Messages on stderr; the last line on stdout is one JSON object.
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iostream>
#include <optional>

#include <unistd.h>

#include "core/json.h"
#include "formats/event_file.h"
#include "l2l/l2l.h"
#include "tools/best_checkpoint.h"
#include "tools/command.h"
#include "tools/progress.h"
#include "tools/report/page.h"
#include "tools/tables.h"

namespace l2l::tools {
namespace {

struct Arguments {
  ConfigArguments config;
  std::int64_t steps = -1;
  std::string pretrained, data, output, resume, metrics, trace;
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
  if (!arguments.pretrained.empty()) options.model.pretrained = arguments.pretrained;
  if (options.data.train.empty() && options.data.source.empty()) {
    throw BadInput(arguments.config.config + ": data.train: missing; name at least one file");
  }
  if (arguments.resume.empty()) return options;
  const Options resumed = options_to_resume(options, arguments.resume);
  if (resumed.batch.micro_batch != options.batch.micro_batch && !arguments.quiet) {
    std::cerr << "batch.micro_batch = " << resumed.batch.micro_batch
              << ", as in the checkpoint: another one would give other bits\n";
  }
  return resumed;
}

// Throws BadInput unless `directory` can be made below what is there.
void check_writable(const std::filesystem::path& directory) {
  std::filesystem::path there = std::filesystem::absolute(directory);
  while (!std::filesystem::exists(there) && there.has_relative_path()) there = there.parent_path();
  if (!std::filesystem::is_directory(there)) {
    throw BadInput("checkpoint.directory " + directory.string() + ": " + there.string() + " is not a directory");
  }
  if (access(there.c_str(), W_OK) != 0) {
    throw BadInput("checkpoint.directory " + directory.string() + ": " + there.string() + " is not writable");
  }
}

// Lines of steps 1 to `completed`; a last line that a kill cut short is not among them.
std::string lines_until(const std::filesystem::path& path, std::int64_t completed) {
  std::ifstream file(path);
  std::string kept;
  for (std::string line; completed > 0 && std::getline(file, line);) {
    const nlohmann::json json = parse_json(line);
    if (!json.is_object() || json.value("step", completed + 1) > completed) break;
    kept += line + "\n";
  }
  return kept;
}

// The file of --metrics, one JSON object per step and per validation, and an event file for TensorBoard.
class MetricsFile {
 public:
  // Keeps the lines of an existing file up to step `completed` (a resumed run writes the later ones again). Empty paths
  // write nothing. Throws BadInput.
  MetricsFile(std::filesystem::path path, std::int64_t completed, const std::filesystem::path& tensorboard);
  // False when it cannot be written: the run is then to be saved before failure() is thrown.
  bool add(const StepReport& report);
  bool add(std::int64_t step, const Trainer::Evaluation& validation);
  // What went wrong; empty when nothing did.
  const std::string& failure() const { return failure_; }

 private:
  bool add(const std::string& line);
  bool add(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

  const std::filesystem::path path_;
  std::ofstream file_;
  std::optional<formats::EventFile> events_;
  std::string failure_;
};

MetricsFile::MetricsFile(std::filesystem::path path, std::int64_t completed, const std::filesystem::path& tensorboard)
    : path_(std::move(path)) {
  if (!tensorboard.empty()) events_.emplace(tensorboard);
  if (path_.empty()) return;
  const std::string kept = lines_until(path_, completed);
  file_.open(path_, std::ios::trunc);
  if (!(file_ << kept << std::flush)) throw BadInput("--metrics " + path_.string() + ": cannot be written");
}

bool MetricsFile::add(const StepReport& report) {
  return add(to_json(report)) && add(report.step, {{"loss", report.loss},
                                                   {"learning_rate", report.learning_rate},
                                                   {"gradient_norm", report.gradient_norm},
                                                   {"tokens_per_second", report.tokens_per_second},
                                                   {"step_ms", report.step_ms},
                                                   {"loss_scale", report.loss_scale}});
}

bool MetricsFile::add(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  if (!events_) return true;
  try {
    events_->add(step, scalars);
  } catch (const Error& error) {
    failure_ = std::string("run.tensorboard: ") + error.what();
  }
  return failure_.empty();
}

bool MetricsFile::add(std::int64_t step, const Trainer::Evaluation& validation) {
  std::vector<std::pair<std::string, double>> scalars = {{"validation_loss", validation.loss}};
  for (const auto& [name, value] : validation.metrics) scalars.emplace_back("metrics/" + name, value);
  if (!add(step, scalars)) return false;
  nlohmann::ordered_json line = {{"step", step}, {"validation_loss", validation.loss}};
  line["metrics"] = json_of(validation.metrics);
  return add(json_text(line));
}

bool MetricsFile::add(const std::string& line) {
  if (path_.empty()) return true;
  errno = 0;
  if (file_ << line << std::endl) return true;
  failure_ = "--metrics " + path_.string() + ": cannot be written" +
             (errno == 0 ? "" : std::string(": ") + std::strerror(errno));
  return false;
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
  std::int64_t resume();
  void train(MetricsFile& metrics);
  bool go_on() const;
  void save_if_due(const StepReport& report);
  // Into the metrics, too; nothing when interrupted. `saved`: the checkpoint of this step, if there is one.
  void validate(MetricsFile& metrics, std::filesystem::path saved = {});
  void draw_report();
  void tell_saved();
  void say(const std::string& message);
  nlohmann::ordered_json summary(const std::filesystem::path& checkpoint);

  const Arguments& arguments_;
  Trainer& trainer_;
  const Options& options_;
  const std::int64_t steps_;  // where this run ends; the schedule's length stays run.steps
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::optional<Progress> progress_;
  std::optional<StepReport> last_;
  std::optional<Trainer::Evaluation> validation_;
  std::optional<BestCheckpoint> best_;
};

// All that can be refused is refused before anything is written.
int Run::run() {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error like any other
  check_writable(options_.checkpoint.directory);
  {
    ByteProgress loading("loading", arguments_.quiet);
    trainer_.prepare([&](std::uint64_t done, std::uint64_t all) { loading.show(done, all); });
  }
  const std::int64_t kept = resume();
  MetricsFile metrics(arguments_.metrics, trainer_.completed_steps(), options_.run.tensorboard);
  if (!arguments_.trace.empty() && !std::ofstream(arguments_.trace)) {
    throw BadInput("--trace " + arguments_.trace + ": cannot be written");
  }
  set_aside_checkpoints(options_.checkpoint.directory, kept);
  best_.emplace(options_, trainer_.completed_steps());
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  train(metrics);
  tell_saved();
  const std::filesystem::path checkpoint = trainer_.save();
  if (!metrics.failure().empty()) {
    throw Error(metrics.failure() + "; the run stopped after step " + std::to_string(trainer_.completed_steps()) +
                ", saved in " + checkpoint.string() + ": continue with --resume");
  }
  if (!options_.data.validation.empty()) validate(metrics, checkpoint);
  draw_report();
  std::cout << json_text(summary(checkpoint)) << std::endl;
  if (!arguments_.trace.empty()) trainer_.write_trace(arguments_.trace);
  return kSuccess;
}

// Checkpoints of up to how many steps, in the run's own directory, belong to it.
std::int64_t Run::resume() {
  if (arguments_.resume.empty()) return -1;
  const std::filesystem::path folder = trainer_.resume(arguments_.resume);
  say("resumed from " + folder.string());
  std::error_code ignored;
  const bool own = std::filesystem::equivalent(std::filesystem::absolute(folder).parent_path(),
                                               options_.checkpoint.directory, ignored);
  return own ? trainer_.completed_steps() : -1;
}

void Run::train(MetricsFile& metrics) {
  progress_.emplace(trainer_.completed_steps(), steps_, arguments_.quiet);
  if (interrupted != 0) return;
  trainer_.train(steps_, [&](const StepReport& report) {
    last_ = report;
    progress_->show(report);
    if (!metrics.add(report)) return false;
    if (report.step == steps_) return go_on();
    save_if_due(report);
    if (options_.run.validate_every > 0 && report.step % options_.run.validate_every == 0) validate(metrics);
    if (best_->exhausted()) {
      say("no better " + options_.checkpoint.best + " in " + std::to_string(options_.run.patience) +
          " validations: stopping after step " + std::to_string(report.step));
      return false;
    }
    return metrics.failure().empty() && go_on();
  });
  progress_->finish();
  if (const std::optional<double> ratio = progress_->measured_over_predicted()) {
    say(print("a step took %.2f times what was predicted (median)", *ratio));
  }
  if (interrupted != 0) say("interrupted: step " + std::to_string(trainer_.completed_steps()) + " is finished; saving");
}

bool Run::go_on() const {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  return interrupted == 0 && (options_.run.seconds == 0 || elapsed.count() < static_cast<double>(options_.run.seconds));
}

void Run::save_if_due(const StepReport& report) {
  if (!trainer_.saving()) tell_saved();
  if (options_.checkpoint.every == 0 || report.step % options_.checkpoint.every != 0) return;
  tell_saved();
  trainer_.start_save();
}

void Run::validate(MetricsFile& metrics, std::filesystem::path saved) {
  validation_ = trainer_.evaluate([] { return interrupted != 0; });
  if (!validation_) return;
  const std::int64_t step = trainer_.completed_steps();
  std::string line = "step " + std::to_string(step) + "  validation loss " + std::to_string(validation_->loss);
  for (const auto& [name, value] : validation_->metrics) line += "  " + name + " " + std::to_string(value);
  say(line);
  metrics.add(step, *validation_);
  if (best_->take(step, *validation_)) {
    if (saved.empty()) {
      tell_saved();
      saved = trainer_.save();
    }
    best_->keep(saved);
    say("the best so far: " + (options_.checkpoint.directory / "best").string());
  }
  draw_report();
}

// Of a run without a config, whose metrics are in its own folder. A report that cannot be drawn does not end the run.
void Run::draw_report() {
  if (arguments_.output.empty() || arguments_.metrics.empty()) return;
  try {
    const std::filesystem::path folder = arguments_.output;
    write_report({folder}, folder / "report.html");
  } catch (const Error& error) {
    say(std::string("report: ") + error.what());
  }
}

// The checkpoint that is written beside training, if there is one; waits for it, and ends the run when it failed.
void Run::tell_saved() {
  const std::filesystem::path folder = trainer_.finish_save();
  if (!folder.empty()) say("saved " + folder.string());
}

void Run::say(const std::string& message) {
  if (arguments_.quiet) return;
  if (progress_) progress_->finish();
  std::cerr << message << "\n";
}

nlohmann::ordered_json Run::summary(const std::filesystem::path& checkpoint) {
  nlohmann::ordered_json summary;
  summary["steps"] = trainer_.completed_steps();
  summary["loss"] = or_null(last_ ? std::optional(last_->loss) : std::nullopt);
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
  summary["weights_hash"] = trainer_.weights_hash();
  return summary;
}

int run(const Arguments& arguments, Trainer& trainer) {
  if (!arguments.trace.empty()) trainer.start_trace();
  if (!arguments.quiet) {
    print_contract(std::cerr, trainer.contract(), trainer.options());
    print_prediction(std::cerr, trainer.predict(/*measure=*/false));
  }
  return arguments.dry_run ? kSuccess : Run(arguments, trainer).run();
}

// Of --pretrained, --data and --output alone.
void check_chosen(const Arguments& arguments) {
  const bool has_config = !arguments.config.config.empty();
  if (has_config && (!arguments.data.empty() || !arguments.output.empty())) {
    throw BadInput("--data and --output are for a run without a CONFIG; set data.train and checkpoint.directory");
  }
  if (has_config) return;
  if (arguments.pretrained.empty() || arguments.data.empty() || arguments.output.empty()) {
    throw BadInput("give a CONFIG, or --pretrained DIR --data FILE.jsonl --output DIR");
  }
  if (!arguments.resume.empty())
    throw BadInput("--resume: name the run's config: " + arguments.output + "/config.toml");
  if (arguments.dry_run) throw BadInput("--dry-run is for a run with a CONFIG");
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  if (!(file << text << std::flush)) throw BadInput(path.string() + ": cannot be written");
}

// Chooses, says what and why, and keeps it as a config, in which the microbatch is the one that the plan has.
int train_chosen(Arguments arguments) {
  const std::filesystem::path output = arguments.output;
  ChosenRun chosen = choose_run(arguments.pretrained, arguments.data, output, arguments.config.assignments);
  std::optional<Trainer> trainer;
  try {
    trainer.emplace(chosen.options());
    chosen.set("batch.micro_batch", std::to_string(trainer->options().batch.micro_batch), "as the plan has chosen");
    write_text(output / "config.toml", chosen.config());
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove_all(output, ignored);
    throw;
  }
  if (!arguments.quiet) {
    std::cerr << arguments.data << ": " << chosen.data << "\nchosen (" << (output / "config.toml").string() << "):\n";
    for (const ChosenKey& each : chosen.keys) {
      std::cerr << "  " << each.key << " = " << each.value << "  " << each.reason << "\n";
    }
  }
  if (arguments.metrics.empty()) arguments.metrics = output / "metrics.jsonl";
  return run(arguments, *trainer);
}

int train(const Arguments& arguments) {
  check_chosen(arguments);
  if (arguments.config.config.empty()) return train_chosen(arguments);
  Trainer trainer(options_of(arguments));
  return run(arguments, trainer);
}

}  // namespace
}  // namespace l2l::tools

int main(int argc, char** argv) {
  using namespace l2l::tools;
  Arguments arguments;
  Command command("l2l-train", "Trains a transformer larger than its device, layer by layer.",
                  [&] { return train(arguments); });
  arguments.config.add_to(command, /*required=*/false);
  command.add(
      "--steps", &arguments.steps,
      "stop after this many steps in total, also after a resume (default and length of the schedule: run.steps)",
      {.least = 0});
  command.add("--pretrained", &arguments.pretrained, "model.pretrained: a Hugging Face model directory to begin from");
  command.add("--data", &arguments.data,
              "without a CONFIG: rows to learn from, JSON Lines; what is not said is chosen");
  command.add("--output", &arguments.output,
              "without a CONFIG: a new folder for config.toml, metrics.jsonl and checkpoints/");
  command.add("--resume", &arguments.resume, "continue from the newest good checkpoint below this directory");
  command.add("--dry-run", &arguments.dry_run, "check config and data, print the memory contract, and stop");
  command.add("--metrics", &arguments.metrics, "write one JSON object per step to this file");
  command.add("--trace", &arguments.trace, "write a timeline to this file (Chrome trace JSON; opens in Perfetto)");
  command.add("--quiet", &arguments.quiet, "no contract and no progress");
  return command.run(argc, argv);
}

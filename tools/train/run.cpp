#include "tools/train/run.h"

#include <fstream>
#include <iostream>
#include <iterator>
#include <utility>

#include "l2l/errors.h"
#include "tools/output_file.h"
#include "tools/report/page.h"
#include "tools/tables.h"
#include "tools/train/allocator_json.h"
#include "tools/train/next_command.h"

namespace l2l::tools {
namespace {

namespace fs = std::filesystem;

// In the last line.
constexpr std::string_view name_of(RunEnd end) {
  switch (end) {
    case RunEnd::steps:
      return "steps";
    case RunEnd::patience:
      return "patience";
    case RunEnd::seconds:
      return "seconds";
    case RunEnd::stopped:
      break;
  }
  return "interrupt";
}

std::string text_in(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Nothing where the file is no config.
std::optional<Options> config_in(const fs::path& file) {
  try {
    return load_options(file);
  } catch (const BadInput&) {
    return std::nullopt;
  }
}

// Throws BadInput where saves make, move or remove the file: within a checkpoint, or in its place.
void check_apart_from_saves(const NamedFile& file, const fs::path& checkpoints) {
  if (file.path.empty() || checkpoints.empty()) return;
  std::error_code ignored;
  const auto resolved = [&](const fs::path& path) { return fs::weakly_canonical(fs::absolute(path), ignored); };
  const fs::path inside = resolved(file.path).lexically_relative(resolved(checkpoints));
  if (inside.empty()) return;
  const std::string name = inside.begin()->string();
  const bool saved = name.starts_with("step-") || name.starts_with(".step-");
  if (!saved && name != "best" && !name.starts_with(".best.")) return;
  throw BadInput(file.option + " " + file.path.string() + ": is where checkpoints of " + checkpoints.string() +
                 " are written; name another one");
}

constexpr bool is_finished(RunEnd end) { return end == RunEnd::steps || end == RunEnd::patience; }

}  // namespace

Run::Run(const TrainArguments& arguments, Trainer& trainer, Signals& signals, Warnings& warnings)
    : arguments_(arguments),
      trainer_(trainer),
      signals_(signals),
      warnings_(warnings),
      options_(trainer.options()),
      limits_{.steps = arguments.steps},
      steps_(arguments.steps >= 0 ? arguments.steps : options_.run.steps) {}

Run::~Run() { signals_.end(); }

void Run::check() const {
  check_outputs();
  trainer_.check_checkpoint_directory();
  if (!arguments_.resume.empty()) {
    trainer_.check_resume(arguments_.resume, arguments_.allow_change);
  } else if (arguments_.dry_run) {
    trainer_.check_weights();  // else prepare() does, before anything is written
  }
}

void Run::check_outputs() const {
  const fs::path folder = arguments_.output;
  std::error_code ignored;
  const bool makes_folder = !folder.empty() && !fs::exists(folder, ignored);
  const auto folder_of = [&](const fs::path& file) {
    return fs::weakly_canonical(fs::absolute(file), ignored).parent_path();
  };
  const auto check_file = [&](const fs::path& file, const std::string& option, IsOurs ours) {
    if (file.empty() || (makes_folder && folder_of(file) == folder_of(folder / "run.json"))) return;
    check_ours(file, option, ours);
  };
  check_folder(folder, "--output");
  check_folder(options_.run.tensorboard, "run.tensorboard");
  const fs::path& checkpoints = options_.checkpoint.directory;
  const bool are_in_folder = !folder.empty() && checkpoints == folder / "checkpoints";
  std::vector<NamedFile> files = {{are_in_folder ? "--output" : "checkpoint.directory", checkpoints}};
  if (!folder.empty()) {
    check_file(folder / "run.json", "--output", is_record);
    check_file(folder / "report.html", "--output", is_report);
    for (const char* const name : {"config.toml", "run.json", "report.html"}) {
      files.push_back({"--output", folder / name});
    }
  }
  check_file(arguments_.metrics, "--metrics", is_metrics);
  check_file(arguments_.trace, "--trace", is_trace);
  const NamedFile metrics{"--metrics", arguments_.metrics}, trace{"--trace", arguments_.trace};
  files.insert(files.end(), {metrics, trace});
  check_apart(files);
  if (!folder.empty()) check_apart({{"--output", folder / "metrics.jsonl"}, trace});  // where --metrics is another file
  for (const NamedFile& file : {metrics, trace}) check_apart_from_saves(file, checkpoints);
  if (!arguments_.metrics.empty()) MetricsFile::check_unused(arguments_.metrics);
}

int Run::run() {
  {
    ByteProgress loading("loading", arguments_.quiet);
    trainer_.prepare([&](std::uint64_t done, std::uint64_t all) { loading.show(done, all); });
  }
  resume();
  make_outputs();
  signals_.begin(trainer_);
  RunResult result;
  try {
    result = trainer_.run(*this, limits_);
  } catch (const Error&) {
    if (progress_) progress_->finish();
    show_run();
    throw;
  }
  if (!metrics_->failure().empty()) {
    throw Error(metrics_->failure() + "; the run stopped after step " + std::to_string(trainer_.completed_steps()) +
                ", saved in " + result.checkpoint.string() + ": continue with --resume");
  }
  show_run();
  const bool dropped =
      options_.data.has_validation() && validated_step_ != trainer_.completed_steps() && !signals_.stopped_by().empty();
  if (dropped && is_finished(result.end)) say("the validation after the last step was dropped: it can be made up");
  if (dropped || !is_finished(result.end)) {
    say(next_command(arguments_, kUnfinished, options_.checkpoint.directory));
  }
  const std::string line = json_text(summary(result));
  if (trainer_.rank() == 0 && !(std::cout << line << std::endl)) {
    throw Error("standard output cannot be written; the run is done and saved, and its last line is " + line);
  }
  if (!arguments_.trace.empty()) trainer_.write_trace(arguments_.trace);
  return is_finished(result.end) || !arguments_.must_finish ? kSuccess : kUnfinished;
}

void Run::resume() {
  if (arguments_.resume.empty()) return;
  const fs::path checkpoint = trainer_.resume(arguments_.resume, arguments_.allow_change);
  say("resumed from " + checkpoint.string());
  const auto settings = [](Options options) {  // wherever the run's folder is
    options = with_absolute_paths(std::move(options));
    options = with_paths_beside(options, options.checkpoint.directory.parent_path());
    options.checkpoint.directory.clear();
    return to_toml(options);
  };
  Options before = checkpoint_options(checkpoint);
  if (settings(before) != settings(options_)) before_ = std::move(before);
  const std::string nothing = nothing_left();
  if (!nothing.empty() && trainer_.rank() == 0) print_message(nothing);
}

// Makes the files of the run.
void Run::make_outputs() {
  const std::int64_t completed = trainer_.completed_steps();
  check_outputs();  // again: loading may have taken long
  trainer_.claim_checkpoint_directory();
  make_folder();
  if (!arguments_.trace.empty()) {
    make_room(arguments_.trace, "--trace", is_trace);
    if (!std::ofstream(arguments_.trace)) throw BadInput("--trace " + arguments_.trace + ": cannot be written");
  }
  metrics_.emplace(arguments_.metrics, completed);
  log_.emplace(arguments_.output);
  record_.emplace(arguments_.output.empty() ? fs::path() : fs::path(arguments_.output) / "run.json", trainer_,
                  completed);
  show_run();
}

// With the config that makes the same run again. One that people wrote stays, unless a resume has changed settings.
void Run::make_folder() {
  if (arguments_.output.empty()) return;
  const fs::path folder = arguments_.output, config = folder / "config.toml";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw BadInput("--output " + folder.string() + ": cannot be made: " + error.message());
  Options options = options_;
  options.model.pretrained = arguments_.pretrained;
  options.model.new_head = arguments_.new_head;
  if (fs::exists(config)) {
    const std::optional<Options> there = config_in(config);
    if (there) {
      options.model.pretrained = there->model.pretrained;
      options.model.new_head = there->model.new_head;
    }
    if (before_) {
      keep_settings(folder, options.model);
    } else if (!there || to_toml(parse_options(text_in(config), config.string())) != text_in(config)) {
      return;
    }
  }
  replace_file(config, to_toml(with_paths_beside(std::move(options), folder)));
}

// Those of the checkpoint, where the resume has changed them. `begun`: from what the run began.
void Run::keep_settings(const fs::path& folder, const ModelOptions& begun) {
  Options before = *before_;
  before.model.pretrained = begun.pretrained;
  before.model.new_head = begun.new_head;
  before.checkpoint.directory = options_.checkpoint.directory;  // the folder may have been moved since
  const fs::path kept = folder / ("config-until-step-" + std::to_string(trainer_.completed_steps()) + ".toml");
  replace_file(kept, to_toml(with_paths_beside(std::move(before), folder)));
  say("settings have changed: " + (folder / "config.toml").string() + " has those of now, " + kept.string() +
      " those of before");
}

void Run::begin(std::int64_t completed, std::int64_t steps) {
  progress_.emplace(completed, steps, options_, arguments_.quiet);
  signals_.show_step(completed, 0);
}

void Run::step(const StepReport& report) {
  stepped_ = true;
  signals_.show_step(report.step, report.step_ms);
  progress_->show(report);
  if (!metrics_->add(report)) trainer_.request_stop();
}

void Run::saving(std::int64_t step, SaveReason reason) {
  if (reason == SaveReason::best || reason == SaveReason::end) signals_.show_saving(true);
  if (reason != SaveReason::asked) return;
  say("SIGUSR1: saving step " + std::to_string(step) + " in " + options_.checkpoint.directory.string());
}

void Run::saved(const fs::path& checkpoint) {
  say("saved " + checkpoint.string());
  if (ending_) signals_.show_saving(false);
  if (!metrics_->add_allocator(trainer_.completed_steps())) trainer_.request_stop();
}

void Run::validating(std::int64_t) {
  if (ending_) signals_.show_saving(false);  // what a resumed run goes on from is saved already
  signals_.show_validation(true);
  progress_->begin_validation();
}

void Run::validation_goes_on(double share) { progress_->show_validation(trainer_.completed_steps(), share); }

void Run::validated(std::int64_t step, const Evaluation& evaluation) {
  signals_.show_validation(false);
  validated_step_ = step;
  std::string line = "step " + std::to_string(step) + "  validation loss " + std::to_string(evaluation.loss);
  for (const auto& [name, value] : evaluation.metrics) line += "  " + name + " " + std::to_string(value);
  say(line);
  progress_->show_validation(evaluation);
  if (!metrics_->add(step, evaluation)) trainer_.request_stop();
  show_run();
}

void Run::kept_best(const fs::path& checkpoint) {
  say("the best so far: " + checkpoint.string());
  show_run();
}

void Run::ending(RunEnd end) {
  progress_->finish();
  ending_ = true;
  signals_.show_saving(true);
  const std::string step = "step " + std::to_string(trainer_.completed_steps());
  if (const std::optional<double> ratio = progress_->measured_over_predicted()) {
    say(print("a step took %.2f times what was predicted (median)", *ratio));
  }
  if (end == RunEnd::patience) {
    say("no better " + options_.checkpoint.best + " in " + std::to_string(options_.run.patience) +
        " validations: stopping after " + step);
  }
  const std::string signal = signals_.stopped_by();
  if (end == RunEnd::stopped && !signal.empty()) {
    say("interrupted by " + signal + ": " + step + " is finished; saving");
  }
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
  if (arguments_.resume.empty() || stepped_ || completed < steps_) return "";
  return "already at " + std::to_string(completed) + " of " + std::to_string(steps_) + " steps: raise " +
         (arguments_.steps >= 0 ? "--steps" : "run.steps");
}

nlohmann::ordered_json Run::summary(const RunResult& result) {
  nlohmann::ordered_json summary;
  summary["steps"] = trainer_.completed_steps();
  summary["finished"] = is_finished(result.end);
  summary["reason"] = name_of(result.end);
  if (const std::string nothing = nothing_left(); !nothing.empty()) {
    summary["message"] = nothing;
  } else {
    summary["loss"] = or_null(result.last ? std::optional(result.last->loss) : std::nullopt);
  }
  const std::optional<Evaluation>& validation = result.validation;
  summary["validation_loss"] = or_null(validation ? std::optional(validation->loss) : std::nullopt);
  summary["metrics"] = json_of(validation ? validation->metrics : decltype(validation->metrics){});
  summary["tokens_per_second"] = progress_->tokens_per_second();
  summary["measured_over_predicted"] = or_null(progress_->measured_over_predicted());
  summary["device_peak_bytes"] = trainer_.device_peak_bytes();
  summary["host_bytes"] = trainer_.host_peak_bytes();
  summary["pinned_bytes"] = trainer_.contract().pinned_bytes;
  summary["predicted_device_bytes"] = trainer_.contract().device_bytes;
  summary["predicted_host_bytes"] = trainer_.contract().host_bytes;
  summary["allocator"] = allocator_json();
  summary["checkpoint"] = result.checkpoint.string();
  if (trainer_.ranks() > 1) {
    const NetworkCounters network = trainer_.network_counters();
    summary["ranks"] = trainer_.ranks();
    summary["network_sent_bytes"] = network.gradients_sent + network.squares_sent + network.weights_sent;
    summary["network_received_bytes"] =
        network.gradients_received + network.squares_received + network.weights_received;
  }
  summary["weights_hash"] = print("%016llx", static_cast<unsigned long long>(trainer_.weights_hash()));
  return summary;
}

}  // namespace l2l::tools

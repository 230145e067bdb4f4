// l2l-train: trains the model of a config. Messages on stderr; the last line on stdout is one JSON object.
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "l2l/l2l.h"
#include "tools/command.h"
#include "tools/measuring_line.h"
#include "tools/progress.h"
#include "tools/tables.h"
#include "tools/terminal.h"
#include "tools/train/arguments.h"
#include "tools/train/chosen_folder.h"
#include "tools/train/next_command.h"
#include "tools/train/run.h"
#include "tools/train/run_record.h"
#include "tools/train/signals.h"

namespace l2l::tools {
namespace {

namespace fs = std::filesystem;

// What is known of a run once it has ended.
struct Outcome {
  fs::path directory;  // of checkpoints
  bool made_steps = false;
  bool lacks_checkpoint = false;  // --resume names a directory without one
};

// What outlives the run: signals, which must come before any thread, and warnings of the library.
struct Session {
  Signals signals;
  Warnings warnings;
  Outcome& outcome;
};

// Whether the options say where checkpoints go, so that --output does not. The config that the --output of another run
// has kept says where those of that run are, if not in its folder.
bool names_directory(const TrainArguments& arguments, const Options& options) {
  if (!sets(options, "checkpoint.directory")) return false;
  const auto sets_it = [](const std::string& assignment) { return assignment.starts_with("checkpoint.directory"); };
  if (std::ranges::any_of(arguments.config.assignments, sets_it)) return true;
  std::error_code ignored;
  const fs::path folder = fs::absolute(arguments.config.config).parent_path();
  return !fs::exists(folder / "run.json", ignored) || fs::equivalent(folder, arguments.output, ignored);
}

Options options_of(const TrainArguments& arguments) {
  Options options = arguments.config.load();
  if (!arguments.pretrained.empty()) options.model.pretrained = arguments.pretrained;
  if (options.data.train.empty() && options.data.source.empty()) {
    throw BadInput(arguments.config.config + ": data.train: missing; name at least one file");
  }
  if (!arguments.output.empty() && !names_directory(arguments, options)) {
    options.checkpoint.directory = fs::path(arguments.output) / "checkpoints";
  }
  options.run.allow_nonfinite |= arguments.allow_nonfinite;
  return options;
}

bool is_folder_without_checkpoint(const fs::path& directory) {
  std::error_code ignored;
  try {
    return fs::is_directory(directory, ignored) && !has_checkpoint(directory);
  } catch (const Error&) {
    return false;
  }
}

// Those of a run that --resume goes on with.
Options resumed_options(const Options& options, const TrainArguments& arguments, Outcome& outcome) {
  outcome.lacks_checkpoint = is_folder_without_checkpoint(arguments.resume);  // which is then refused
  const Options resumed = options_to_resume(options, arguments.resume);
  const auto tell = [&](const char* key, const auto& before, const auto& now) {
    if (before == now || arguments.quiet) return;
    std::ostringstream text;
    text << key << " = " << now << ", as in the checkpoint: another one would give other bits";
    print_message(text.str());
  };
  tell("batch.micro_batch", options.batch.micro_batch, resumed.batch.micro_batch);
  tell("precision.compute", options.precision.compute, resumed.precision.compute);
  return resumed;
}

// Of several processes, the first speaks and writes for all.
TrainArguments arguments_of(TrainArguments arguments, const Trainer& trainer) {
  if (trainer.rank() == 0) return arguments;
  arguments.quiet = true;
  arguments.output = arguments.metrics = arguments.trace = "";
  return arguments;
}

int run_alone(const TrainArguments& arguments, Trainer& trainer, Session& session) {
  session.outcome.directory = trainer.options().checkpoint.directory;
  if (!arguments.trace.empty()) trainer.start_trace();
  if (!arguments.quiet) {
    std::ostringstream text;
    print_contract(text, message_columns(), trainer.contract(), trainer.options(), Choices::summary);
    print_prediction(text, message_columns(), trainer.predict(/*measure=*/false));
    write_message(text.str());
  }
  const std::int64_t nodes = trainer.options().distributed.nodes;
  if (arguments.dry_run && nodes > trainer.ranks()) {
    print_message("distributed.nodes = " + std::to_string(nodes) +
                  ": this is what one of them takes; to train, start all of them (mpirun -n " + std::to_string(nodes) +
                  ")");
  }
  Run training(arguments, trainer, session.signals, session.warnings);
  training.check();
  if (arguments.dry_run) return kSuccess;
  try {
    return training.run();
  } catch (...) {
    session.outcome.made_steps = training.made_steps();
    throw;
  }
}

int run(const TrainArguments& given, Trainer& trainer, Session& session) {
  if (trainer.ranks() == 1) return run_alone(given, trainer, session);
  const bool some_resume = trainer.on_any_rank(!given.resume.empty());
  trainer.check_on_all_ranks([&] {
    if (!some_resume || !given.resume.empty()) return;
    throw BadInput("finds no checkpoint to go on from where another process does: all must see the same directory");
  });
  try {
    return run_alone(arguments_of(given, trainer), trainer, session);
  } catch (const Error& error) {  // which may be of this rank alone, and then ends all before anybody could tell it
    const bool told = error.code() == ErrorCode::bad_input && trainer.rank() > 0;  // by the first, too
    if (!told && !trainer.ended_together()) {
      write_message("rank " + std::to_string(trainer.rank()) + ": " + error.what() + "\n");
    }
    throw;
  }
}

// The folder of a run is its own.
void check_output(const TrainArguments& arguments) {
  const fs::path folder = arguments.output;
  std::error_code error;
  if (folder.empty() || !arguments.resume.empty() || !fs::exists(folder, error)) return;
  const std::string option = "--output " + folder.string();
  if (!fs::is_directory(folder, error)) throw BadInput(option + ": is a file; name a new folder");
  if (fs::is_empty(folder, error)) return;
  const fs::path checkpoints = folder / "checkpoints";
  throw BadInput(option + ": is there already and not empty; name a new folder" +
                 (has_checkpoint(checkpoints) ? ", or continue its run with --resume " + checkpoints.string() : ""));
}

// Of --pretrained, --data and --output alone.
void check_chosen(const TrainArguments& arguments) {
  const bool has_config = !arguments.config.config.empty();
  if (has_config && !arguments.data.empty()) throw BadInput("--data is for a run without a CONFIG; set data.train");
  if (has_config) return;
  if (arguments.pretrained.empty() || arguments.data.empty() || arguments.output.empty()) {
    throw BadInput("give a CONFIG, or --pretrained DIR --data FILE.jsonl --output DIR");
  }
  if (!arguments.resume.empty()) {
    throw BadInput("--resume: name the run's config, " + arguments.output +
                   "/config.toml, or give --resume-if-any alone, which goes on by it");
  }
}

// For a run that is in `config`, and has its own copy of the rows.
void check_same_run(const TrainArguments& arguments, const fs::path& config) {
  std::error_code error;
  const fs::path begun_from = load_options(config).model.pretrained;
  if (fs::weakly_canonical(arguments.pretrained, error) != fs::weakly_canonical(begun_from, error)) {
    throw BadInput("--pretrained " + arguments.pretrained + ": the run in " + arguments.output + " began from " +
                   begun_from.string() + "; name a new folder by --output, or the model that it began from");
  }
  if (are_rows_of(arguments.output, arguments.data)) return;
  throw BadInput("--data " + arguments.data + ": the run in " + arguments.output +
                 " has other rows; to train on these, name a new folder by --output; to go on with those it has: " +
                 "l2l-train " + config.string() + " --output " + arguments.output + " --resume-if-any");
}

// The command that chose a run and began it, given once more with --resume-if-any, goes on by the config that it chose.
void take_chosen_config(TrainArguments& arguments) {
  const fs::path output = arguments.output, config = output / "config.toml", rows = output / "data/train.jsonl";
  std::error_code ignored;
  if (!arguments.config.config.empty() || !arguments.resume_if_any) return;
  if (!fs::exists(config, ignored) || !fs::exists(rows, ignored)) return;
  check_same_run(arguments, config);
  if (!arguments.quiet) {
    print_message("goes on by " + config.string() + ", as chosen before");
  }
  arguments.config.config = config.string();
  arguments.pretrained.clear();
}

// A dry run looks ahead, and waits for no measurement.
double seconds_of_measuring(const TrainArguments& arguments) { return arguments.dry_run ? 0 : Measuring().seconds; }

// Chooses, says what and why, and keeps it as a config, in which the microbatch is the one that the plan has. A dry run
// keeps nothing.
int train_chosen(const TrainArguments& arguments, Session& session) {
  ChosenFolder folder(arguments.output);  // a run that is refused leaves it as it was
  ChosenRun chosen = choose_run(arguments.pretrained, arguments.data, arguments.output, arguments.config.assignments);
  MeasuringLine line(arguments.quiet);
  Trainer trainer(chosen.options(), line.measuring(seconds_of_measuring(arguments)));
  line.finish();
  chosen.set("batch.micro_batch", std::to_string(trainer.options().batch.micro_batch), "as the plan has it");
  Run(arguments, trainer, session.signals, session.warnings).check();
  // A dry run that is killed leaves what the next preparation clears away.
  if (!arguments.dry_run) folder.write_config(chosen.config(arguments.output));
  if (!arguments.quiet) {
    const fs::path config = fs::path(arguments.output) / "config.toml";
    const std::string place = arguments.dry_run ? "" : " (" + config.string() + ")";
    std::string text = arguments.data + ": " + chosen.data + "\nchosen" + place + ":\n";
    for (const ChosenKey& each : chosen.keys) text += "  " + each.key + " = " + each.value + "  " + each.reason + "\n";
    write_message(text);
  }
  folder.keep(!arguments.dry_run);
  try {
    return run(arguments, trainer, session);
  } catch (const BadInput&) {
    folder.keep(trainer.completed_steps() > 0);
    throw;
  }
}

int train(TrainArguments arguments, Outcome& outcome) {
  Session session{.signals = {}, .warnings = {}, .outcome = outcome};
  while (arguments.output.size() > 1 && arguments.output.ends_with('/')) arguments.output.pop_back();
  check_chosen(arguments);
  take_chosen_config(arguments);
  if (!arguments.allow_change.empty() && arguments.resume.empty() && !arguments.resume_if_any) {
    throw BadInput("--allow-change requires --resume or --resume-if-any");
  }
  if (!arguments.output.empty() && arguments.metrics.empty()) {
    arguments.metrics = fs::path(arguments.output) / "metrics.jsonl";
  }
  if (arguments.config.config.empty()) {
    if (launched_processes() > 1) {
      throw BadInput("give several processes a CONFIG, such as config.toml in the --output of a run of one process");
    }
    return train_chosen(arguments, session);
  }
  if (arguments.resume_if_any) {
    if (arguments.resume.empty()) arguments.resume = options_of(arguments).checkpoint.directory.string();
    if (arguments.resume.empty())
      throw BadInput("--resume-if-any: name a directory by --resume or checkpoint.directory");
    if (!has_checkpoint(arguments.resume)) arguments.resume.clear();
  } else {
    check_output(arguments);
  }
  Options options = options_of(arguments);
  if (!arguments.resume.empty()) options = resumed_options(options, arguments, outcome);
  arguments.pretrained = options.model.pretrained;
  arguments.new_head = options.model.new_head;
  MeasuringLine line(arguments.quiet);
  Trainer trainer(options, line.measuring(seconds_of_measuring(arguments)));
  line.finish();
  return run(arguments, trainer, session);
}

}  // namespace
}  // namespace l2l::tools

int main(int argc, char** argv) {
  using namespace l2l::tools;
  TrainArguments arguments;
  arguments.words = {argv, argv + argc};
  Outcome outcome;
  Command command("l2l-train", "Trains a transformer larger than its device, layer by layer.",
                  [&] { return train(arguments, outcome); });
  command.set_next_step([&](int status) {
    return outcome.lacks_checkpoint
               ? beginning_command(arguments)
               : next_command(arguments, outcome.made_steps ? kFailure : status, outcome.directory);
  });
  arguments.config.add_to(command, /*required=*/false);
  command.add(
      "--steps", &arguments.steps,
      "stop after this many steps in total, also after a resume (default and length of the schedule: run.steps)",
      {.least = 0, .most = 1e12});
  command.add("--pretrained", &arguments.pretrained, "model.pretrained: a Hugging Face model directory to begin from");
  command.add("--data", &arguments.data, "without a CONFIG, which is then chosen: rows to learn from, JSON Lines");
  command.add("--output", &arguments.output,
              "a new folder for config.toml, metrics.jsonl, run.json, report.html and checkpoints/");
  command.add("--resume", &arguments.resume,
              "continue from the newest good checkpoint in this directory, which may be that of --output");
  command.add("--resume-if-any", &arguments.resume_if_any,
              "continue from the newest good checkpoint of --resume, or of the run's own directory, or begin where "
              "there is none");
  command.add("--allow-change", &arguments.allow_change,
              "with --resume or --resume-if-any: go on although this key (optimizer.learning_rate, data.train for what "
              "the files hold) has changed");
  command.add("--dry-run", &arguments.dry_run, "check all that a run checks, print the memory contract, and stop");
  command.add("--metrics", &arguments.metrics, "write one JSON object per step to this file");
  command.add("--trace", &arguments.trace, "write a timeline to this file (Chrome trace JSON; opens in Perfetto)");
  command.add("--allow-nonfinite", &arguments.allow_nonfinite, kAllowNonfinite);
  command.add("--must-finish", &arguments.must_finish,
              "end with status 130 where the run is saved, but stopped before its last step");
  command.add("--quiet", &arguments.quiet, "no contract and no progress");
  command.add_example("l2l-train run.toml --output out",
                      "trains the model of run.toml; out/ gets metrics, report.html and checkpoints");
  command.add_example("l2l-train --pretrained models/MiniLM --data reviews.jsonl --output tuned",
                      "fine-tunes a Hugging Face model on rows of JSON Lines; chooses all other settings");
  return command.run(argc, argv);
}

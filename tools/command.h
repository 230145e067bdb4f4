// What the command-line tools share: exit statuses, command lines, and options from CONFIG and --set.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "l2l/options.h"
#include "tools/command_line/description.h"

namespace CLI {
class App;
}

namespace l2l::tools {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;       // while running
inline constexpr int kBadInput = 2;      // usage, config, data, does not fit
inline constexpr int kUnfinished = 130;  // l2l-train --must-finish: the run stopped before its last step, and is saved

inline constexpr const char* kAllowNonfinite = "load weights that are NaN or infinite, too (run.allow_nonfinite)";

// Where the value of an option goes; what stands there is its default. A bool is set by the mere name of the option,
// integers of a list are separated by commas.
using Target = std::variant<bool*, int*, std::int64_t*, std::uint64_t*, double*, std::string*, std::vector<int>*,
                            std::vector<std::string>*>;

// What must hold for an option.
struct Rules {
  bool required = false;
  std::optional<double> least = {}, most = {};  // of numbers; a `most` has a `least`
  std::vector<std::string> one_of = {};         // of texts; empty: any
  std::string needs = {};                       // an option, added before, without which this one makes no sense
  std::vector<std::string> offers = {};         // beginnings of values, which shells offer
};

// The keys of a config as --set takes them: "optimizer.learning_rate=".
std::vector<std::string> config_keys();

// A command line, by CLI11. Beside its own options, every tool has --help, --version and, for the build alone,
// --describe FOLDER, which writes its manual page and completions there. Thread-bound.
class Command {
 public:
  // What the command does; returns the exit status.
  using Body = std::function<int()>;

  Command(const std::string& name, const std::string& description, Body body = {});
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // `name` begins with dashes, or else is that of an argument by its place. A value that its rules refuse, such as -1
  // of at least 0, is no default to speak of.
  void add(const std::string& name, Target target, const std::string& help, const Rules& rules = {});
  // Options, added before, that may not both be given.
  void exclude(const std::string& name, const std::string& other);
  // A command has either options that do something or subcommands, one of which must be named; options of this command
  // may also stand behind the subcommand. The reference is valid as long as this command.
  Command& add_subcommand(const std::string& name, const std::string& description, Body body);

  // For --help and the manual page: a command line, and what it does.
  void add_example(const std::string& command, const std::string& what);

  // Says, by exit status, what to type after the body has failed; empty: nothing.
  using NextStep = std::function<std::string(int status)>;
  void set_next_step(NextStep next_step) { next_step_ = std::move(next_step); }

  // Parses, runs the body, and turns exceptions into one message on stderr and the exit status of the contract. A write
  // beyond the limit on file sizes (ulimit -f) fails instead of ending the process: SIGXFSZ is ignored.
  int run(int argc, char** argv);

 private:
  Command(std::shared_ptr<CLI::App> app, const std::string& summary, Body body);
  int parse_and_run(int argc, char** argv);
  // Says what has failed and what comes next; returns `status`.
  int fail(int status, const std::string& message) const;
  // The subcommand that was named, or this.
  const Command& chosen() const;
  // With all subcommands.
  CommandDescription description() const;
  // Of what was named, with the options that it shares.
  CommandDescription chosen_description() const;
  // What is wrong with a command line of which CLI11 says `what`.
  std::string refusal(const std::string& what) const;

  const std::shared_ptr<CLI::App> app_;
  const Body body_;
  NextStep next_step_;
  CommandDescription own_;
  std::vector<std::unique_ptr<Command>> subcommands_;
};

// CONFIG.toml [--set key=value]...
struct ConfigArguments {
  std::string config;
  std::vector<std::string> assignments;

  void add_to(Command& command, bool required = true);
  // The file, then the assignments in order; checkpoint.directory is checkpoints/CONFIG unless set. Throws BadInput.
  Options load() const;
};

// Whether a file or an assignment names the key, such as data.format.
bool sets(const Options& options, std::string_view key);

}  // namespace l2l::tools

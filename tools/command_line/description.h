// A command line as plain values, from which help, manual page and completions are written.
#pragma once

#include <string>
#include <vector>

namespace l2l::tools {

struct ArgumentDescription {
  std::string name;   // "--steps", or "CONFIG", which is known by its place
  std::string value;  // what stands behind an option: "N"; empty: nothing does
  std::string help;
  std::vector<std::string> notes = {};    // "in [0, 1]", "default: 1"
  std::vector<std::string> choices = {};  // the only values that it takes; empty: any
  std::vector<std::string> offers = {};   // beginnings of values, which shells offer
  bool required = false, repeated = false;
  bool may_be_file = false;  // its value

  bool is_option() const { return name.front() == '-'; }
};

struct ExampleDescription {
  std::string command, what;
};

struct CommandDescription {
  std::string name, summary;
  std::vector<ArgumentDescription> arguments;
  std::vector<ExampleDescription> examples;
  std::vector<CommandDescription> subcommands;  // which also take the options of their command
};

std::string joined(const std::vector<std::string>& words, const std::string& separator);
// A subcommand as if it were a command of its own: "l2l-bench step", with the options that it shares.
CommandDescription with_shared_options(const CommandDescription& command, const CommandDescription& subcommand);
// "l2l-bench [OPTIONS] SUBCOMMAND"
std::string usage_of(const CommandDescription& command);
// "--steps N"
std::string signature_of(const ArgumentDescription& argument);
// The help, and its notes in parentheses.
std::string explanation_of(const ArgumentDescription& argument);

// What --help prints, in lines of at most `columns` where words are not longer.
std::string help_text(const CommandDescription& command, int columns);
// A page for man(1), in man(7).
std::string manual_page(const CommandDescription& command);
// A script that bash, or zsh, loads.
std::string bash_completion(const CommandDescription& command);
std::string zsh_completion(const CommandDescription& command);

// Writes NAME.1, NAME.bash and _NAME (for zsh) into `folder`. Throws BadInput when they cannot be written.
void write_description(const CommandDescription& command, const std::string& folder);

}  // namespace l2l::tools

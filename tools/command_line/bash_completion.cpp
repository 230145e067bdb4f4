#include <algorithm>

#include "tools/command_line/description.h"

namespace l2l::tools {
namespace {

std::vector<std::string> names_of(const std::vector<CommandDescription>& commands) {
  std::vector<std::string> names;
  for (const CommandDescription& command : commands) names.push_back(command.name);
  return names;
}

std::string words(const std::vector<std::string>& all) { return "words='" + joined(all, " ") + "'"; }

// What stands behind an option.
std::string values_of(const ArgumentDescription& argument) {
  if (!argument.choices.empty()) return words(argument.choices);
  if (!argument.offers.empty()) return words(argument.offers) + " && compopt -o nospace 2>/dev/null";
  return argument.may_be_file ? "files=1" : ":";
}

// Of the `case` over what was named and the word before: the values of each option; else options, subcommands, files.
std::string branches(const CommandDescription& command, const std::string& subcommand) {
  std::string text, others = command.subcommands.empty() ? ":" : words(names_of(command.subcommands));
  std::vector<std::string> options;
  for (const ArgumentDescription& argument : command.arguments) {
    if (!argument.is_option()) {
      others = "files=1";
      continue;
    }
    options.push_back(argument.name);
    if (argument.value.empty()) continue;
    text += "    " + subcommand + ":" + argument.name + ") " + values_of(argument) + " ;;\n";
  }
  return text + "    " + subcommand + ":*) if [[ $current == -* ]]; then " + words(options) + "; else " + others +
         "; fi ;;\n";
}

}  // namespace

std::string bash_completion(const CommandDescription& command) {
  std::string function = "_" + command.name;
  std::replace(function.begin(), function.end(), '-', '_');
  std::string find_subcommand, subcommands;
  if (!command.subcommands.empty()) {
    find_subcommand = R"(  local word
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in )" + joined(names_of(command.subcommands), "|") +
                      R"() subcommand=$word; break ;; esac
  done
)";
  }
  for (const CommandDescription& each : command.subcommands) {
    subcommands += branches(with_shared_options(command, each), each.name);
  }
  // Bash cuts words at "=", so that --option=value is three of them.
  return "# bash completion for " + command.name + "\n" + function + R"(() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} subcommand='' words='' files=''
  if [[ $current == = ]]; then
    current=''
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD-2]}
  fi
)" + find_subcommand +
         "  case $subcommand:$previous in\n" + subcommands + branches(command, "") + R"(  esac
  COMPREPLY=()
  if [[ $files ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  fi
}
complete -F )" +
         function + " " + command.name + "\n";
}

}  // namespace l2l::tools

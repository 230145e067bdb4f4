#include "tools/command_line/description.h"

namespace l2l::tools {
namespace {

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
  return text;
}

// In single quotes of the shell.
std::string quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

// Inside a specification of _arguments, where : and brackets separate.
std::string plain(std::string text) {
  for (const char* const special : {"\\", ":", "[", "]"}) text = replaced(text, special, std::string("\\") + special);
  return text;
}

std::string values_of(const ArgumentDescription& argument) {
  if (!argument.choices.empty()) return "(" + joined(argument.choices, " ") + ")";
  if (!argument.offers.empty()) return "{compadd -S \"\" -- " + joined(argument.offers, " ") + "}";
  return argument.may_be_file ? "_files" : " ";
}

// "'--steps[stop after]:N: '"
std::string specification(const ArgumentDescription& argument) {
  std::string text;
  if (!argument.is_option()) {
    text = std::string(argument.repeated ? "*" : "") + ":" + plain(argument.name) + ":" + values_of(argument);
  } else {
    text = (argument.repeated ? "*" : "") + argument.name + "[" + plain(argument.help) + "]";
    if (!argument.value.empty()) text += ":" + plain(argument.value) + ":" + values_of(argument);
  }
  return " \\\n    " + quoted(text);
}

std::string specifications(const CommandDescription& command) {
  std::string text;
  for (const ArgumentDescription& argument : command.arguments) text += specification(argument);
  return text;
}

}  // namespace

std::string zsh_completion(const CommandDescription& command) {
  const std::string head = "#compdef " + command.name + "\n";
  if (command.subcommands.empty()) return head + "_arguments" + specifications(command) + "\n";
  std::string names, branches;
  for (const CommandDescription& each : command.subcommands) {
    names += " " + quoted(each.name + ":" + each.summary);
    branches += "  " + each.name + ") _arguments" + specifications(with_shared_options(command, each)) + " ;;\n";
  }
  return head + "local curcontext=$curcontext state line subcommands=(" + names + ")\ntypeset -A opt_args\n" +
         "_arguments -C" + specifications(command) +
         " \\\n    '1:subcommand:->subcommand' '*::argument:->argument'\n"
         "case $state in\n"
         "subcommand) _describe subcommand subcommands ;;\n"
         "argument) case $line[1] in\n" +
         branches + "  esac ;;\nesac\n";
}

}  // namespace l2l::tools

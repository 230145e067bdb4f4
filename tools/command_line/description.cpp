#include "tools/command_line/description.h"

#include <algorithm>
#include <fstream>

#include "l2l/errors.h"

namespace l2l::tools {
namespace {

void write(const std::string& file, const std::string& text) {
  std::ofstream out(file, std::ios::trunc);
  if (!(out << text << std::flush)) throw BadInput(file + ": cannot be written");
}

}  // namespace

std::string joined(const std::vector<std::string>& words, const std::string& separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

CommandDescription with_shared_options(const CommandDescription& command, const CommandDescription& subcommand) {
  CommandDescription whole = subcommand;
  whole.name = command.name + " " + subcommand.name;
  for (const ArgumentDescription& argument : command.arguments) {
    const bool is_there = std::any_of(whole.arguments.begin(), whole.arguments.end(),
                                      [&](const ArgumentDescription& own) { return own.name == argument.name; });
    if (argument.is_option() && !is_there) whole.arguments.push_back(argument);
  }
  return whole;
}

std::string usage_of(const CommandDescription& command) {
  std::string usage = command.name + " [OPTIONS]";
  for (const ArgumentDescription& argument : command.arguments) {
    if (argument.is_option()) continue;
    const std::string name = argument.name + (argument.repeated ? "..." : "");
    usage += argument.required ? " " + name : " [" + name + "]";
  }
  return usage + (command.subcommands.empty() ? "" : " SUBCOMMAND");
}

std::string signature_of(const ArgumentDescription& argument) {
  return argument.name + (argument.value.empty() || !argument.is_option() ? "" : " " + argument.value);
}

std::string explanation_of(const ArgumentDescription& argument) {
  return argument.help + (argument.notes.empty() ? "" : " (" + joined(argument.notes, "; ") + ")");
}

void write_description(const CommandDescription& command, const std::string& folder) {
  write(folder + "/" + command.name + ".1", manual_page(command));
  write(folder + "/" + command.name + ".bash", bash_completion(command));
  write(folder + "/_" + command.name, zsh_completion(command));
}

}  // namespace l2l::tools

#include "tools/command_line/description.h"
#include "tools/command_line/wrapped_text.h"

namespace l2l::tools {
namespace {

constexpr int kIndent = 24;  // of explanations

// A row of two columns; what is too long for the first one has a line of its own.
std::string row(const std::string& left, const std::string& right, int columns) {
  std::string line = "  " + left;
  if (line.size() + 2 > kIndent) {
    line += "\n" + std::string(kIndent, ' ');
  } else {
    line.resize(kIndent, ' ');
  }
  return line + wrapped(right, columns, kIndent) + "\n";
}

std::string section(const std::string& title, const std::string& rows) {
  return rows.empty() ? "" : "\n" + title + ":\n" + rows;
}

}  // namespace

std::string help_text(const CommandDescription& command, int columns) {
  std::string arguments, options, subcommands, examples;
  for (const ArgumentDescription& argument : command.arguments) {
    (argument.is_option() ? options : arguments) += row(signature_of(argument), explanation_of(argument), columns);
  }
  for (const CommandDescription& subcommand : command.subcommands) {
    subcommands += row(subcommand.name, subcommand.summary, columns);
  }
  for (const ExampleDescription& example : command.examples) {
    examples += "  " + example.command + "\n      " + wrapped(example.what, columns, 6) + "\n";
  }
  return "Usage: " + usage_of(command) + "\n" + wrapped(command.summary, columns, 0) + "\n" +
         section("Arguments", arguments) + section("Options", options) + section("Subcommands", subcommands) +
         section("Examples", examples);
}

}  // namespace l2l::tools

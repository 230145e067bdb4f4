#include <algorithm>
#include <cctype>
#include <string_view>

#include "l2l/version.h"
#include "tools/command_line/description.h"

namespace l2l::tools {
namespace {

// Plain text for roff: what it would take for a request, an escape or a hyphen stands for itself.
std::string escaped(const std::string& text) {
  std::string result;
  if (!text.empty() && (text.front() == '.' || text.front() == '\'')) result = "\\&";
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
  }
  return result;
}

std::string bold(const std::string& text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + escaped(text) + "\\fR"; }

// A tagged paragraph.
std::string entry(const std::string& tag, const std::string& text) {
  return ".TP\n" + tag + "\n" + escaped(text) + "\n";
}

std::string entries(const std::vector<ArgumentDescription>& arguments) {
  std::string places, options;
  for (const ArgumentDescription& argument : arguments) {
    const std::string explanation = explanation_of(argument);
    if (!argument.is_option()) {
      places += entry(italic(argument.name), explanation);
    } else if (argument.value.empty()) {
      options += entry(bold(argument.name), explanation);
    } else {
      options += entry(bold(argument.name) + " " + italic(argument.value), explanation);
    }
  }
  return places + options;
}

std::string subcommands(const std::vector<CommandDescription>& commands) {
  std::string text;
  for (const CommandDescription& command : commands) {
    text += ".SS " + escaped(usage_of(command)) + "\n" + escaped(command.summary) + "\n" + entries(command.arguments);
  }
  return text.empty() ? "" : ".SH SUBCOMMANDS\n" + text;
}

std::string examples(const std::vector<ExampleDescription>& examples) {
  std::string text;
  for (const ExampleDescription& example : examples) text += entry(bold(example.command), example.what);
  return ".SH EXAMPLES\n" + text;
}

bool has_option(const CommandDescription& command, std::string_view name) {
  return std::ranges::any_of(command.arguments,
                             [&](const ArgumentDescription& argument) { return argument.name == name; });
}

}  // namespace

std::string manual_page(const CommandDescription& command) {
  std::string title = command.name;
  std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string summary = command.summary;
  if (summary.back() == '.') summary.pop_back();
  return ".TH " + title + " 1 \"\" \"L2L " L2L_VERSION "\"\n" +                      //
         ".SH NAME\n" + escaped(command.name) + " \\- " + escaped(summary) + "\n" +  //
         ".SH SYNOPSIS\n" + escaped(usage_of(command)) + "\n" +                      //
         ".SH OPTIONS\n" + entries(command.arguments) + subcommands(command.subcommands) + examples(command.examples) +
         ".SH EXIT STATUS\n" + entry("0", "success") + entry("1", "failed while running") +
         entry("2", "bad input: usage, config, data, or what does not fit; nothing was changed") +
         (has_option(command, "--must-finish")
              ? entry("130", "with --must-finish: the run is saved, but ended before its last step")
              : "");
}

}  // namespace l2l::tools

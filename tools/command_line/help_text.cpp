#include <algorithm>
#include <sstream>

#include "tools/command_line/description.h"

namespace l2l::tools {
namespace {

constexpr std::size_t kIndent = 24;  // of explanations

// Lays help out in lines of at most `columns`, which only a word may exceed. Immutable.
class Layout {
 public:
  explicit Layout(std::size_t columns) : columns_(columns) {}

  // `text` in lines of which all but the first begin with `indent` spaces.
  std::string wrapped(const std::string& text, std::size_t indent) const {
    std::istringstream words(text);
    std::string lines;
    std::size_t column = indent;
    for (std::string word; words >> word;) {
      const bool fits = column == indent || column + 1 + word.size() <= columns_;
      if (!fits) {
        lines += "\n" + std::string(indent, ' ');
        column = indent;
      }
      const std::string space = column == indent ? "" : " ";
      lines += space + word;
      column += space.size() + word.size();
    }
    return lines;
  }

  // A row of two columns; what is too long for the first one has a line of its own.
  std::string row(const std::string& left, const std::string& right) const {
    std::string line = "  " + left;
    if (line.size() + 2 > kIndent) {
      line += "\n" + std::string(kIndent, ' ');
    } else {
      line.resize(kIndent, ' ');
    }
    return line + wrapped(right, kIndent) + "\n";
  }

 private:
  std::size_t columns_;
};

std::string section(const std::string& title, const std::string& rows) {
  return rows.empty() ? "" : "\n" + title + ":\n" + rows;
}

}  // namespace

std::string help_text(const CommandDescription& command, int columns) {
  const Layout layout(static_cast<std::size_t>(std::max(columns, 1)));
  std::string arguments, options, subcommands, examples;
  for (const ArgumentDescription& argument : command.arguments) {
    (argument.is_option() ? options : arguments) += layout.row(signature_of(argument), explanation_of(argument));
  }
  for (const CommandDescription& subcommand : command.subcommands) {
    subcommands += layout.row(subcommand.name, subcommand.summary);
  }
  for (const ExampleDescription& example : command.examples) {
    examples += "  " + example.command + "\n      " + layout.wrapped(example.what, 6) + "\n";
  }
  return "Usage: " + usage_of(command) + "\n" + layout.wrapped(command.summary, 0) + "\n" +
         section("Arguments", arguments) + section("Options", options) + section("Subcommands", subcommands) +
         section("Examples", examples);
}

}  // namespace l2l::tools

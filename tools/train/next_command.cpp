#include "tools/train/next_command.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "l2l/errors.h"
#include "l2l/trainer.h"
#include "tools/command.h"

namespace l2l::tools {
namespace {

// As a shell takes it.
std::string quoted(const std::string& word) {
  const bool plain =
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@%") ==
      std::string::npos;
  if (plain && !word.empty()) return word;
  std::string text = "'";
  for (const char character : word) text += character == '\'' ? std::string("'\\''") : std::string(1, character);
  return text + "'";
}

// Without the options of `dropped` and their values.
std::string command_line(const std::vector<std::string>& arguments, std::initializer_list<std::string_view> dropped) {
  std::string text;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const auto names = [&](std::string_view option) {
      return word == option || word.starts_with(std::string(option) + "=");
    };
    if (std::none_of(dropped.begin(), dropped.end(), names)) {
      text += (text.empty() ? "" : " ") + quoted(word);
    } else if (word.find('=') == std::string::npos) {
      ++i;
    }
  }
  return text;
}

bool has_checkpoint(const std::filesystem::path& directory) {
  try {
    static_cast<void>(checkpoint_options(directory));
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string next_command(const FailedRun& run, int status) {
  const bool dry = std::count(run.arguments.begin(), run.arguments.end(), "--dry-run") > 0;
  const std::string same = command_line(run.arguments, {});
  if (status == kBadInput) {
    if (run.arguments.size() == 1) return "for examples: " + same + " --help";
    if (!run.has_config) return "once that is fixed: " + same;
    return "once that is fixed, check it with: " + same + (dry ? "" : " --dry-run");
  }
  if (!run.directory.empty() && has_checkpoint(run.directory)) {
    std::vector<std::string> arguments = run.arguments;
    if (!run.has_config) arguments.insert(arguments.begin() + 1, (run.output / "config.toml").string());
    const std::string resume = " --resume " + quoted(run.directory.string());
    return "to go on: " +
           (run.has_config ? command_line(arguments, {"--resume"})
                           : command_line(arguments, {"--pretrained", "--data", "--set"})) +
           resume;
  }
  const bool made = !run.output.empty() && same.find("--resume") == std::string::npos;
  return (made ? "once " + quoted(run.output.string()) + " is removed, to start again: " : "to start again: ") + same;
}

}  // namespace l2l::tools

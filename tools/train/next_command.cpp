#include "tools/train/next_command.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <vector>

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

// Without these options and their values.
std::vector<std::string> without(const std::vector<std::string>& words,
                                 std::initializer_list<std::string_view> options) {
  std::vector<std::string> left;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view name = std::string_view(words[i]).substr(0, words[i].find('='));
    if (std::find(options.begin(), options.end(), name) == options.end()) {
      left.push_back(words[i]);
    } else if (name == words[i]) {
      ++i;
    }
  }
  return left;
}

std::string command_line(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + quoted(word);
  return text;
}

bool can_resume(const std::filesystem::path& directory) {
  try {
    static_cast<void>(checkpoint_options(directory));
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string next_command(const TrainArguments& arguments, int status, const std::filesystem::path& directory) {
  const bool has_config = !arguments.config.config.empty() && arguments.data.empty();  // on the command line
  const std::string same = command_line(arguments.words);
  if (status == kBadInput) {
    if (arguments.words.size() == 1) return "for examples: " + same + " --help";
    if (!has_config || arguments.dry_run) return "once that is fixed: " + same;
    return "once that is fixed, check it with: " + same + " --dry-run";
  }
  if (!directory.empty() && can_resume(directory)) {
    std::vector<std::string> words = arguments.words;
    if (has_config) {
      words = without(words, {"--resume"});
    } else {
      words = without(words, {"--pretrained", "--data", "--set"});  // which are in the config that was chosen
      words.insert(words.begin() + 1, (std::filesystem::path(arguments.output) / "config.toml").string());
    }
    return "to go on: " + command_line(words) + " --resume " + quoted(directory.string());
  }
  std::error_code ignored;
  const bool made = !arguments.output.empty() && arguments.resume.empty() && !arguments.resume_if_any &&
                    std::filesystem::exists(arguments.output, ignored);
  return (made ? "once " + quoted(arguments.output) + " is removed, to start again: " : "to start again: ") + same;
}

std::string beginning_command(const TrainArguments& arguments) {
  return "to begin where there is no checkpoint: " + command_line(arguments.words) + " --resume-if-any";
}

}  // namespace l2l::tools

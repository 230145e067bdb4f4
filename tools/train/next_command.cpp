#include "tools/train/next_command.h"

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

// Without --dry-run, and unless it resumes without --resume and its value.
std::string command_line(const std::vector<std::string>& arguments, bool resumes) {
  std::string text;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const bool resume = !resumes && (word == "--resume" || word.starts_with("--resume="));
    if (resume && word == "--resume") ++i;
    if (word == "--dry-run" || resume) continue;
    text += (text.empty() ? "" : " ") + quoted(word);
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

std::string next_command(const std::vector<std::string>& arguments, int status,
                         const std::filesystem::path& directory) {
  if (status == kBadInput) {
    return "when that is mended, check it: " + command_line(arguments, /*resumes=*/true) + " --dry-run";
  }
  const std::string command = command_line(arguments, /*resumes=*/false);
  if (directory.empty() || !has_checkpoint(directory)) return "to start again: " + command;
  return "to go on: " + command + " --resume " + quoted(directory.string());
}

}  // namespace l2l::tools

#include "runtime/options/option_paths.h"

#include <cstdlib>
#include <string_view>

#include "core/files.h"
#include "core/log.h"
#include "runtime/data/path_pattern.h"

namespace l2l {
namespace runtime {
namespace {

namespace fs = std::filesystem;

template <typename Function>
void change(fs::path& path, std::string_view key, const Function& function) {
  std::string name = path.string();
  if (name.empty()) return;
  function(key, name);
  path = name;
}

// Calls function(key, name), which may change the name, for all that a run reads.
template <typename Function>
void for_each_input(Options& options, const Function& function) {
  const auto each = [&](std::string_view key, std::vector<std::string>& names) {
    for (std::string& name : names) function(key, name);
  };
  change(options.model.pretrained, "model.pretrained", function);
  change(options.model.base, "model.base", function);
  change(options.lora.adapter, "lora.adapter", function);
  if (options.data.tokenizer != "bytes") function("data.tokenizer", options.data.tokenizer);
  each("data.train", options.data.train);
  each("data.validation", options.data.validation);
  for (DataSource& source : options.data.source) each("data.source", source.train);
}

// Likewise, for all that it writes.
template <typename Function>
void for_each_output(Options& options, const Function& function) {
  change(options.checkpoint.directory, "checkpoint.directory", function);
  change(options.run.tensorboard, "run.tensorboard", function);
}

}  // namespace

void expand_home(Options& options) {
  const char* const home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return;
  const auto expand = [&](std::string_view, std::string& name) {
    if (name == "~" || name.starts_with("~/")) name = home + name.substr(1);
  };
  for_each_input(options, expand);
  for_each_output(options, expand);
}

void resolve_inputs(Options& options, const fs::path& config) {
  const fs::path folder = config.parent_path();
  if (const std::string name = options.checkpoint.directory.string(); name.starts_with(kBesideConfig)) {
    options.checkpoint.directory = folder / name.substr(kBesideConfig.size());
    std::erase(options.given, "checkpoint.directory");
  }
  std::error_code error;
  if (folder.empty() || fs::equivalent(folder, fs::current_path(error), error)) return;
  for_each_input(options, [&](std::string_view key, std::string& name) {
    if (name.empty() || fs::path(name).is_absolute()) return;
    const std::string there = in_folder(folder, name);
    // Patterns of any folders came later than paths that begin at the file.
    if (name.find("**") != std::string::npos || !expand_pattern(there).empty() || expand_pattern(name).empty()) {
      name = there;
      return;
    }
    const fs::path from_folder = fs::relative(fs::current_path(error), folder, error) / name;
    log(LogLevel::warning, std::string(key) + ": \"" + name + "\" is not in " + folder.string() + ", the folder of " +
                               config.filename().string() +
                               ", but in the working directory, where the next version will not look: write \"" +
                               from_folder.string() + "\"");
  });
}

}  // namespace runtime

Options with_absolute_paths(Options options) {
  const auto make_absolute = [](std::string_view, std::string& name) {
    if (name.empty() || std::filesystem::path(name).is_absolute()) return;
    name = runtime::in_folder(absolute_path("name").parent_path(), name);
  };
  runtime::for_each_input(options, make_absolute);
  runtime::for_each_output(options, make_absolute);
  return options;
}

Options with_paths_beside(Options options, const std::filesystem::path& folder) {
  options = with_absolute_paths(std::move(options));
  std::error_code ignored;
  const std::filesystem::path base = std::filesystem::weakly_canonical(absolute_path(folder), ignored);
  const auto name_from = [&](std::string_view, std::string& name) {
    const std::filesystem::path inside = std::filesystem::weakly_canonical(name, ignored).lexically_relative(base);
    if (!name.empty() && !inside.empty() && inside != "." && *inside.begin() != "..") name = inside.string();
  };
  runtime::for_each_input(options, name_from);
  runtime::change(options.checkpoint.directory, "checkpoint.directory", [&](std::string_view key, std::string& name) {
    const std::string before = name;
    name_from(key, name);
    if (name != before) name.insert(0, runtime::kBesideConfig);
  });
  return options;
}

}  // namespace l2l

#include "tools/command.h"

#include <iostream>

#include "l2l/errors.h"

namespace l2l::tools {

void ConfigArguments::add_to(CLI::App& app) {
  app.add_option("CONFIG", config, "TOML file")->required();
  app.add_option("--set", assignments, "section.key=value, over the file; may be repeated")->allow_extra_args(false);
}

Options ConfigArguments::load() const {
  Options options = load_options(config);
  for (const std::string& assignment : assignments) set_option(options, assignment);
  if (options.checkpoint.directory.empty()) {
    options.checkpoint.directory = "checkpoints/" + std::filesystem::path(config).stem().string();
  }
  return options;
}

int run(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  try {
    app.parse(argc, argv);
    return body();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kSuccess : kBadInput;
  } catch (const BadInput& error) {
    std::cerr << app.get_name() << ": " << error.what() << "\n";
    return kBadInput;
  } catch (const std::exception& error) {
    std::cerr << app.get_name() << ": failed: " << error.what() << "\n";
    return kFailure;
  }
}

}  // namespace l2l::tools

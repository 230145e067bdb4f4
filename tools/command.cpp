// The only file that includes CLI11, which takes long to compile.
#include "tools/command.h"

#include <cmath>
#include <iostream>
#include <new>
#include <system_error>
#include <type_traits>
#include <utility>

#include <CLI/CLI.hpp>

#include "l2l/errors.h"

namespace l2l::tools {
namespace {

template <typename Number>
void check_range(CLI::Option& option, const Rules& rules) {
  if constexpr (std::is_floating_point_v<Number>) {
    option.check(
        [](const std::string& text) {
          double value = 0;
          return CLI::detail::lexical_cast(text, value) && std::isfinite(value) ? "" : text + " is no finite number";
        },
        "FINITE");
  }
  if (!rules.least) return;
  if (rules.most) {
    option.check(CLI::Range(static_cast<Number>(*rules.least), static_cast<Number>(*rules.most)));
  } else {
    option.check(CLI::NonNegativeNumber);
  }
}

template <typename Value>
CLI::Option& add_value(CLI::App& app, const std::string& name, Value& value, const std::string& help,
                       const Rules& rules) {
  if constexpr (std::is_same_v<Value, bool>) {
    return *app.add_flag(name, value, help);
  } else {
    CLI::Option& option = *app.add_option(name, value, help);
    if constexpr (std::is_arithmetic_v<Value>) check_range<Value>(option, rules);
    if constexpr (std::is_same_v<Value, std::vector<int>>) check_range<int>(*option.delimiter(','), rules);
    // Free text may be anything, the next argument too: one value for each time that the option is named. An argument
    // by its place takes all that are left.
    if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
      option.allow_extra_args(!rules.one_of.empty() || option.get_positional());
    }
    return option;
  }
}

}  // namespace

Command::Command(const std::string& name, const std::string& description, Body body)
    : Command(std::make_shared<CLI::App>(description, name), std::move(body)) {}

Command::Command(std::shared_ptr<CLI::App> app, Body body) : app_(std::move(app)), body_(std::move(body)) {}

Command::~Command() = default;

void Command::add(const std::string& name, Target target, const std::string& help, const Rules& rules) {
  CLI::Option& option =
      std::visit([&](auto* value) -> CLI::Option& { return add_value(*app_, name, *value, help, rules); }, target);
  if (!rules.one_of.empty()) option.check(CLI::IsMember(rules.one_of));
  if (!rules.needs.empty()) option.needs(app_->get_option(rules.needs));
  option.required(rules.required);
}

void Command::exclude(const std::string& name, const std::string& other) {
  app_->get_option(name)->excludes(app_->get_option(other));
}

Command& Command::add_subcommand(const std::string& name, const std::string& description, Body body) {
  CLI::App* const subcommand = app_->add_subcommand(name, description);
  subcommand->fallthrough();
  app_->require_subcommand(1);
  subcommands_.push_back(std::unique_ptr<Command>(new Command(app_->get_subcommand_ptr(subcommand), std::move(body))));
  return *subcommands_.back();
}

const Command::Body& Command::chosen() const {
  for (const std::unique_ptr<Command>& subcommand : subcommands_) {
    if (subcommand->app_->parsed()) return subcommand->body_;
  }
  return body_;
}

int Command::run(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
    const int status = chosen()();
    if (status == kSuccess && !std::cout.flush()) throw Error("standard output cannot be written");
    return status;
  } catch (const CLI::ParseError& error) {
    return app_->exit(error) == 0 ? kSuccess : kBadInput;
  } catch (const BadInput& error) {
    std::cerr << app_->get_name() << ": " << error.what() << "\n";
    return kBadInput;
  } catch (const std::bad_alloc&) {
    std::cerr << app_->get_name() << ": failed: memory ran out; see the limits of this shell (ulimit -v, ulimit -d)\n";
    return kFailure;
  } catch (const std::system_error& error) {
    const bool thread = error.code() == std::errc::resource_unavailable_try_again;
    std::cerr << app_->get_name() << ": failed: " << error.what()
              << (thread ? "; no thread could be made: raise the limits (ulimit -u, -v)" : "") << "\n";
    return thread ? kBadInput : kFailure;
  } catch (const std::exception& error) {
    std::cerr << app_->get_name() << ": failed: " << error.what() << "\n";
    return kFailure;
  }
}

void ConfigArguments::add_to(Command& command, bool required) {
  command.add("CONFIG", &config, "TOML file", {.required = required});
  command.add("--set", &assignments, "section.key=value, over the file; may be repeated");
}

Options ConfigArguments::load() const {
  Options options = load_options(config);
  for (const std::string& assignment : assignments) set_option(options, assignment);
  if (options.checkpoint.directory.empty()) {
    options.checkpoint.directory = "checkpoints/" + std::filesystem::path(config).stem().string();
  }
  return options;
}

}  // namespace l2l::tools

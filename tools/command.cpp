// The only file that includes CLI11, which takes long to compile.
#include "tools/command.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <iostream>
#include <new>
#include <sstream>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include <CLI/CLI.hpp>

#include "base/edit_distance.h"
#include "l2l/errors.h"
#include "l2l/version.h"
#include "tools/command_line/version_text.h"
#include "tools/tables.h"
#include "tools/terminal.h"

namespace l2l::tools {
namespace {

constexpr int kHelpColumns = 100;

// A number in messages and help.
std::string text_of(double value, bool whole) {
  return whole ? std::to_string(static_cast<std::int64_t>(value)) : print("%.10g", value);
}

// "in [0, 1]", "at least 1"; empty: anything goes.
std::string bounds_of(const Rules& rules, bool whole) {
  if (!rules.least) return "";
  if (rules.most) return "in [" + text_of(*rules.least, whole) + ", " + text_of(*rules.most, whole) + "]";
  return "at least " + text_of(*rules.least, whole);
}

bool allows(const Rules& rules, double value) {
  return std::isfinite(value) && !(value < rules.least.value_or(value)) && !(value > rules.most.value_or(value));
}

// What stands between two commas of a list, or else the value itself.
template <typename Value>
struct ElementOf {
  using Type = Value;
};
template <typename Value>
struct ElementOf<std::vector<Value>> {
  using Type = Value;
};

// What is wrong with the text of a number; empty: nothing. CLI11 by itself would take what is too large for the largest
// number, -1 for 2^64 - 1, and 010 for 8.
template <typename Number>
std::string read_number(const std::string& text, Number& value) {
  if constexpr (std::is_integral_v<Number>) {
    if (std::is_unsigned_v<Number> && text.starts_with('-')) return " must not be negative";
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc::result_out_of_range && stop == end) return " is out of range";
    if (error != std::errc() || stop != end) return " is no whole number";
    const std::size_t first = text.find_first_not_of('-');
    return text[first] == '0' && text.size() > first + 1 ? " begins with a zero" : "";
  } else {
    return CLI::detail::lexical_cast(text, value) ? "" : " is no number";
  }
}

template <typename Number>
std::string refusal_of_number(const std::string& text, const Rules& rules) {
  constexpr bool kWhole = std::is_integral_v<Number>;
  Number value{};
  if (const std::string wrong = read_number(text, value); !wrong.empty()) return text + wrong;
  if (allows(rules, static_cast<double>(value))) return "";
  if (!std::isfinite(static_cast<double>(value))) return text + " is no finite number";
  if (rules.least == 0.0 && !rules.most) return text + " must not be negative";
  return text + " must be " + bounds_of(rules, kWhole);
}

// What is wrong with the text of a value; empty: nothing.
template <typename Element>
std::string refusal_of(const std::string& text, const Rules& rules) {
  if constexpr (std::is_arithmetic_v<Element>) {
    return refusal_of_number<Element>(text, rules);
  } else {
    if (text.empty()) return "must not be empty";  // as of a shell's variable that is not set
    const bool fits = rules.one_of.empty() || std::count(rules.one_of.begin(), rules.one_of.end(), text) > 0;
    return fits ? "" : text + " is none of " + joined(rules.one_of, ", ");
  }
}

// Of integers with commas between them. CLI11 by itself would leave out empty ones.
CLI::Option& add_list(CLI::App& app, const std::string& name, std::vector<int>& values, const Rules& rules) {
  const auto take = [&values, name, rules](const CLI::results_t& texts) {
    values.clear();  // the default
    for (const std::string& text : texts) {
      for (std::size_t begin = 0, end = 0; begin <= text.size(); begin = end + 1) {
        end = std::min(text.find(',', begin), text.size());
        const std::string number = text.substr(begin, end - begin);
        const std::string wrong = number.empty() ? text + " has an empty place" : refusal_of<int>(number, rules);
        if (!wrong.empty()) throw CLI::ValidationError(name, wrong);
        read_number(number, values.emplace_back());
      }
    }
    return true;
  };
  return *app.add_option(name, take)->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args();
}

// The option in CLI11.
template <typename Value>
CLI::Option& add_option(CLI::App& app, const std::string& name, Value& value, const Rules& rules) {
  if constexpr (std::is_same_v<Value, bool>) {
    return *app.add_flag(name, value);
  } else {
    using Element = typename ElementOf<Value>::Type;
    if constexpr (std::is_same_v<Value, std::vector<int>>) return add_list(app, name, value, rules);
    CLI::Option& option = *app.add_option(name, value);
    option.check([rules](const std::string& text) { return refusal_of<Element>(text, rules); }, "");
    // Free text may be anything, the next argument too: one value for each time that the option is named. An argument
    // by its place takes all that are left.
    if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
      option.allow_extra_args(!rules.one_of.empty() || option.get_positional());
    }
    return option;
  }
}

// What stands behind the option.
template <typename Value>
std::string placeholder(const Rules& rules) {
  using Element = typename ElementOf<Value>::Type;
  if constexpr (std::is_same_v<Value, bool>) return "";
  if constexpr (std::is_same_v<Value, std::vector<int>>) return "N,...";
  if constexpr (std::is_arithmetic_v<Element>) return std::is_integral_v<Element> ? "N" : "X";
  return rules.one_of.empty() ? "TEXT" : joined(rules.one_of, "|");
}

// The value that stands there; empty: none to speak of.
template <typename Value>
std::string default_of(const Value& value, const Rules& rules) {
  if constexpr (std::is_same_v<Value, std::string>) return value;
  if constexpr (std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>) {
    if (allows(rules, static_cast<double>(value)))
      return text_of(static_cast<double>(value), std::is_integral_v<Value>);
  }
  return "";
}

template <typename Value>
ArgumentDescription describe(const std::string& name, const Value& value, const std::string& help, const Rules& rules) {
  using Element = typename ElementOf<Value>::Type;
  ArgumentDescription argument{.name = name, .value = placeholder<Value>(rules), .help = help};
  argument.repeated = std::is_same_v<Value, std::vector<std::string>>;
  const std::string bounds = bounds_of(rules, std::is_integral_v<Element>), standard = default_of(value, rules);
  if (!bounds.empty() && bounds != "at least 0") argument.notes.push_back(bounds);
  if (!standard.empty()) argument.notes.push_back("default: " + standard);
  if (!rules.needs.empty()) argument.notes.push_back("with " + rules.needs);
  if (argument.repeated && argument.is_option()) argument.notes.push_back("may be repeated");
  argument.choices = rules.one_of;
  argument.offers = rules.offers;
  argument.required = rules.required;
  argument.may_be_file = std::is_same_v<Element, std::string>;
  return argument;
}

// The nearest of `words` to what was meant to be one of them; empty: none is near.
std::string nearest(const std::string& meant, const std::vector<std::string>& words) {
  std::string found;
  std::size_t least = std::max<std::size_t>(2, meant.size() / 3) + 1;
  for (const std::string& word : words) {
    const std::size_t distance = edit_distance(meant, word);
    if (distance < least) least = distance, found = word;
  }
  return found;
}

}  // namespace

std::vector<std::string> config_keys() {
  std::istringstream lines(to_toml(Options()));
  std::vector<std::string> keys;
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) {
      section = line.substr(1, line.find(']') - 1);
    } else if (const std::size_t end = line.find(" = "); end != std::string::npos) {
      keys.push_back(section + "." + line.substr(0, end) + "=");
    }
  }
  return keys;
}

Command::Command(const std::string& name, const std::string& description, Body body)
    : Command(std::make_shared<CLI::App>(description, name), description, std::move(body)) {
  app_->set_version_flag("--version", std::string(L2L_VERSION));
  own_.arguments.push_back({.name = "--version", .value = "", .help = "print the version and how it was built"});
}

Command::Command(std::shared_ptr<CLI::App> app, const std::string& summary, Body body)
    : app_(std::move(app)), body_(std::move(body)) {
  own_.name = app_->get_name();
  own_.summary = summary;
  app_->set_help_flag("-h,--help");
  own_.arguments.push_back({.name = "--help", .value = "", .help = "print this"});
}

Command::~Command() = default;

void Command::add(const std::string& name, Target target, const std::string& help, const Rules& rules) {
  CLI::Option& option =
      std::visit([&](auto* value) -> CLI::Option& { return add_option(*app_, name, *value, rules); }, target);
  if (!rules.needs.empty()) option.needs(app_->get_option(rules.needs));
  option.required(rules.required);
  own_.arguments.push_back(std::visit([&](auto* value) { return describe(name, *value, help, rules); }, target));
  if (!own_.arguments.back().value.empty()) option.type_name(own_.arguments.back().value);
}

void Command::exclude(const std::string& name, const std::string& other) {
  app_->get_option(name)->excludes(app_->get_option(other));
  for (ArgumentDescription& argument : own_.arguments) {
    if (argument.name == name) argument.notes.push_back("not with " + other);
  }
}

void Command::add_example(const std::string& command, const std::string& what) {
  own_.examples.push_back({command, what});
}

Command& Command::add_subcommand(const std::string& name, const std::string& description, Body body) {
  CLI::App* const subcommand = app_->add_subcommand(name, description);
  subcommand->fallthrough();
  app_->require_subcommand(1);
  subcommands_.push_back(
      std::unique_ptr<Command>(new Command(app_->get_subcommand_ptr(subcommand), description, std::move(body))));
  return *subcommands_.back();
}

const Command& Command::chosen() const {
  for (const std::unique_ptr<Command>& subcommand : subcommands_) {
    if (subcommand->app_->parsed()) return *subcommand;
  }
  return *this;
}

CommandDescription Command::description() const {
  CommandDescription description = own_;
  for (const std::unique_ptr<Command>& subcommand : subcommands_) {
    description.subcommands.push_back(subcommand->description());
  }
  return description;
}

CommandDescription Command::chosen_description() const {
  if (&chosen() == this) return description();
  return with_shared_options(own_, chosen().description());
}

std::string Command::refusal(const std::string& what) const {
  const CommandDescription description = chosen_description();
  const std::string see = "; see " + description.name + " --help";
  std::vector<std::string> unknown = app_->remaining(true);
  const auto mark = std::find(unknown.begin(), unknown.end(), "--");  // nothing behind it is an option
  const auto option =
      std::find_if(unknown.begin(), mark, [](const std::string& each) { return each.starts_with('-'); });
  const bool is_option = option != mark;  // before which may stand what is meant to be its value
  const auto first = is_option ? option : std::find_if_not(unknown.begin(), unknown.end(), [](const std::string& each) {
    return each == "--";
  });
  if (first == unknown.end()) return what + see;
  const std::string word = is_option ? first->substr(0, first->find('=')) : *first;
  std::vector<std::string> known;
  for (const ArgumentDescription& argument : description.arguments) {
    if (is_option && argument.is_option()) known.push_back(argument.name);
  }
  for (const CommandDescription& subcommand : description.subcommands) {
    if (!is_option) known.push_back(subcommand.name);
  }
  const std::string suggestion = nearest(word, known);
  return word + ": " +
         (is_option       ? "unknown option"
          : known.empty() ? "one argument too many"
                          : "unknown subcommand") +
         (!is_option && word.starts_with('-') ? ": behind -- nothing is an option" : "") +
         (suggestion.empty() ? see : "; did you mean " + suggestion + "?");
}

int Command::parse_and_run(int argc, char** argv) {
  if (argc == 3 && argv[1] == std::string_view("--describe")) {
    write_description(description(), argv[2]);
    return kSuccess;
  }
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << help_text(chosen_description(), output_columns(kHelpColumns));
    return kSuccess;
  } catch (const CLI::CallForVersion&) {
    std::cout << version_text(own_.name);
    return kSuccess;
  }
  return chosen().body_();
}

int Command::fail(int status, const std::string& message) const {
  const std::string next = next_step_ ? next_step_(status) : "";
  write_message(app_->get_name() + ": " + message + "\n" + (next.empty() ? "" : next + "\n"));
  return status;
}

int Command::run(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const int status = parse_and_run(argc, argv);
    if (status == kSuccess && !std::cout.flush()) throw Error("standard output cannot be written");
    return status;
  } catch (const CLI::ParseError& error) {
    write_message(app_->get_name() + ": " + refusal(error.what()) + "\n");
    return kBadInput;
  } catch (const BadInput& error) {
    return fail(kBadInput, error.what());
  } catch (const std::bad_alloc&) {
    return fail(kFailure, "failed: memory ran out; see the limits of this shell (ulimit -v, ulimit -d)");
  } catch (const std::system_error& error) {
    const bool thread = error.code() == std::errc::resource_unavailable_try_again;
    return fail(thread ? kBadInput : kFailure,
                std::string("failed: ") + error.what() +
                    (thread ? "; no thread could be made: raise the limits (ulimit -u, -v, -d)" : ""));
  } catch (const std::exception& error) {
    return fail(kFailure, std::string("failed: ") + error.what());
  }
}

void ConfigArguments::add_to(Command& command, bool required) {
  command.add("CONFIG", &config, "TOML file", {.required = required});
  command.add("--set", &assignments, "section.key=value, over the file", {.offers = config_keys()});
}

bool sets(const Options& options, std::string_view key) {
  return std::find(options.given.begin(), options.given.end(), key) != options.given.end();
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

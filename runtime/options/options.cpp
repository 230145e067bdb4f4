#include "l2l/options.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include "base/edit_distance.h"
#include "core/error_place.h"
#include "core/files.h"
#include "l2l/errors.h"
#include "runtime/options/option_paths.h"
#include "runtime/options/options_table.h"
#include "runtime/options/options_value.h"

namespace l2l {

namespace {

using runtime::Key;

constexpr std::size_t kMostConfigBytes = 1 << 20;
constexpr std::size_t kMostDots = 2048;  // in a line

std::string full_name(std::string_view section, std::string_view name) {
  return std::string(section) + "." + std::string(name);
}

// Whether `name` is made of the first letters of the words of `key`, as "lr" of "learning_rate" is.
bool abbreviates(std::string_view name, std::string_view key) {
  std::string letters;
  for (std::size_t i = 0; i < key.size(); ++i) {
    if (i == 0 || key[i - 1] == '_') letters += key[i];
  }
  return letters.size() > 1 && name == letters;
}

bool has_section(const std::vector<Key>& keys, std::string_view section) {
  return std::any_of(keys.begin(), keys.end(), [&](const Key& key) { return key.section == section; });
}

// "; [run] has steps, seed": empty where there is no such section.
std::string list_keys(const std::vector<Key>& keys, std::string_view section) {
  std::string list;
  for (const Key& key : keys) {
    if (key.section == section)
      list += (list.empty() ? "; [" + std::string(section) + "] has " : ", ") + std::string(key.name);
  }
  return list;
}

// The largest edit distance, and one, at which a name may be what `name` was meant to be.
std::size_t too_far(std::string_view name) { return std::max<std::size_t>(2, name.size() / 3) + 1; }

// "; did you mean learning_rate?": the nearest key of the section, else the nearest elsewhere.
std::string suggest_key(const std::vector<Key>& keys, std::string_view section, std::string_view name) {
  const Key* nearest = nullptr;
  std::size_t least = too_far(name);
  for (const Key& key : keys) {
    const bool short_for = key.section == section && abbreviates(name, key.name);
    const std::size_t longer = std::max(name.size(), key.name.size());
    if (!short_for && longer - std::min(name.size(), key.name.size()) > least) continue;
    const std::size_t distance = short_for ? 0 : edit_distance(name, key.name);
    const bool nearer = distance < least || (distance == least && nearest != nullptr && key.section == section &&
                                             nearest->section != section);
    if (nearer) least = distance, nearest = &key;
  }
  if (nearest == nullptr) return list_keys(keys, section);
  return "; did you mean " +
         (nearest->section == section ? std::string(nearest->name) : full_name(nearest->section, nearest->name)) + "?";
}

// "; did you mean [optimizer]?", or else the list of all.
std::string suggest_section(const std::vector<Key>& keys, std::string_view section) {
  constexpr std::size_t kMostCompared = 64;  // characters: no section is longer
  std::string_view nearest, before;
  std::size_t least = too_far(section.substr(0, kMostCompared));
  std::string list;
  for (const Key& key : keys) {
    if (std::exchange(before, key.section) == key.section) continue;  // the keys of a section stand together
    list += (list.empty() ? "" : ", ") + std::string(key.section);
    const std::size_t distance = edit_distance(section.substr(0, kMostCompared), key.section);
    if (distance < least) least = distance, nearest = key.section;
  }
  return nearest.empty() ? "; the sections are " + list : "; did you mean [" + std::string(nearest) + "]?";
}

// Stores `value` in the field that the table has for this key, and notes in `given` that it was set.
void assign(const std::vector<Key>& keys, std::string_view section, std::string_view name, const toml::node& value,
            const std::string& where, std::vector<std::string>& given) {
  if (!has_section(keys, section)) {
    throw BadInput("unknown section [" + std::string(section) + "] in " + where + suggest_section(keys, section));
  }
  const auto key =
      std::find_if(keys.begin(), keys.end(), [&](const Key& k) { return k.section == section && k.name == name; });
  if (key == keys.end()) {
    throw BadInput("unknown key " + full_name(section, name) + " in " + where + suggest_key(keys, section, name),
                   of_key(full_name(section, name)));
  }
  const std::string full = full_name(section, name);
  try {
    runtime::assign_value(*key, value, where);
  } catch (const BadInput& error) {
    throw BadInput(error.what(), of_key(full));
  }
  if (std::find(given.begin(), given.end(), full) == given.end()) given.push_back(full);
}

std::string read_config(const std::filesystem::path& file) {
  const std::string name = file.string();
  refuse_special(file);
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw BadInput(name + ": cannot be opened: " + std::strerror(errno));
  std::string text(kMostConfigBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) throw BadInput(name + ": cannot be read: " + std::strerror(errno));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > kMostConfigBytes) throw BadInput(name + ": longer than 1 MiB; not a config file");
  return text;
}

// The parser builds one nested table per dot of a key and frees them recursively: a long enough line ends the stack.
void refuse_deep_keys(const std::string& text, const std::string& name) {
  std::size_t line = 1, dots = 0;
  for (const char c : text) {
    if (c == '\n') ++line, dots = 0;
    if (c == '.' && ++dots > kMostDots) {
      throw BadInput(name + ":" + std::to_string(line) + ": more than " + std::to_string(kMostDots) +
                     " dots in one line; break it");
    }
  }
}

toml::table parse(const std::string& text, const std::string& name) {
  refuse_deep_keys(text, name);
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    throw BadInput(name + ":" + std::to_string(error.source().begin.line) +
                   ": not TOML: " + std::string(error.description()));
  }
}

// Of an assignment: TOML, or else a bare word as a string.
toml::table parse_value(std::string_view text, const std::string& where) {
  refuse_deep_keys(std::string(text), where);
  const bool quoted = !text.empty() && std::string_view("\"'[{").find(text.front()) != std::string_view::npos;
  try {
    toml::table table = toml::parse("value = " + std::string(text));
    if (table.size() == 1) return table;
  } catch (const toml::parse_error& error) {
    if (quoted) throw BadInput(where + ": the value is not TOML: " + std::string(error.description()));
  }
  if (text.empty()) throw BadInput(where + ": has no value");
  return toml::table{{"value", std::string(text)}};
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

Options load_options(const std::filesystem::path& file) {
  return naming_file(file.string(), [&] {
    Options options = parse_options(read_config(file), file.string());
    runtime::resolve_inputs(options, file);
    return options;
  });
}

Options parse_options(const std::string& text, const std::string& name) {
  const toml::table table = parse(text, name);
  Options options;
  const std::vector<Key> keys = runtime::option_keys(options);
  for (const auto& [section, node] : table) {
    const std::string where = name + ":" + std::to_string(node.source().begin.line);
    const toml::table* entries = node.as_table();
    if (entries == nullptr && !has_section(keys, section.str())) {
      throw BadInput("key " + std::string(section.str()) + " in " + where + " stands outside a section" +
                     suggest_key(keys, "", section.str()));
    }
    if (entries == nullptr) throw BadInput(std::string(section.str()) + " in " + where + ": expected a section");
    if (!has_section(keys, section.str())) assign(keys, section.str(), "", node, where, options.given);
    for (const auto& [key, value] : *entries) {
      assign(keys, section.str(), key.str(), value, name + ":" + std::to_string(value.source().begin.line),
             options.given);
    }
  }
  runtime::expand_home(options);
  return options;
}

void set_option(Options& options, std::string_view assignment) {
  const std::string where = "'" + std::string(assignment.substr(0, 200)) + "'";
  const std::size_t equals = assignment.find('=');
  const std::string_view name = trim(assignment.substr(0, equals));
  const std::size_t dot = name.find('.');
  Options changed = options;
  const std::vector<Key> keys = runtime::option_keys(changed);
  if (dot == std::string_view::npos) {
    throw BadInput(where + ": expected section.key=value, such as run.steps=10" +
                   (name.empty()              ? ""
                    : has_section(keys, name) ? list_keys(keys, name)
                                              : suggest_key(keys, "", name)));
  }
  if (equals == std::string_view::npos) {
    throw BadInput(where + ": has no value: write " + std::string(name.substr(0, 200)) + "=VALUE");
  }
  const toml::table value = parse_value(trim(assignment.substr(equals + 1)), where);
  assign(keys, name.substr(0, dot), name.substr(dot + 1), *value.get("value"), where, changed.given);
  runtime::expand_home(changed);
  options = std::move(changed);
}

std::string to_toml(const Options& options) {
  Options copy = options;
  std::string text;
  std::string_view section;
  for (const Key& key : runtime::option_keys(copy)) {
    if (key.section != section) {
      text += (text.empty() ? "[" : "\n[") + std::string(key.section) + "]\n";
      section = key.section;
    }
    text += std::string(key.name) + " = " + runtime::value_to_toml(key.field) + "\n";
  }
  return text;
}

}  // namespace l2l

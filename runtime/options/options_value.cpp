#include "runtime/options/options_value.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "core/bytes.h"
#include "l2l/errors.h"
#include "text/utf8.h"

namespace l2l::runtime {

namespace {

constexpr std::uint64_t kMostUnsigned = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kAuto = TransferOptions::kChosen;
static_assert(kAuto == BatchOptions::kChosen);

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

std::string quote(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\', quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += "\\u00", quoted += kDigits[byte >> 4], quoted += kDigits[byte & 15];
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string quote_all(const std::vector<std::string_view>& texts) {
  std::string list;
  for (const std::string_view text : texts) list += (list.empty() ? "" : ", ") + quote(text);
  return list;
}

// The shortest text that reads back to the same double, marked as a float.
std::string real_to_toml(double value) {
  char buffer[32];
  const std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  return text.find_first_of(".einf") == std::string::npos ? text + ".0" : text;
}

// Whether a config file, which is TOML, can have it.
bool printable(std::string_view text) {
  const auto shows = [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; };
  return std::ranges::all_of(text, shows) && text::valid_prefix(text) == text.size();
}

// Integers count as numbers: `max_norm = 1`.
std::optional<double> number_in(const toml::node& value) {
  if (const auto* real = value.as_floating_point()) return real->get();
  if (const auto* integer = value.as_integer()) return static_cast<double>(integer->get());
  return std::nullopt;
}

template <typename Row>
std::string_view table_name() {
  Row row;
  return keys_of(row).front().section;
}

std::string expectation(const Field& field) {
  return std::visit(
      Overloaded{
          [](const IntegerField& f) {
            return (f.may_be_auto ? "\"auto\" or an integer from " : "an integer from ") + std::to_string(f.least) +
                   " to " + std::to_string(f.most);
          },
          [](const UnsignedField& f) {
            return f.is_size ? "a size such as \"8GiB\", \"500MB\" or plain bytes, below 2^63"
                             : "an integer from 0 to " + std::to_string(kMostUnsigned);
          },
          [](const RealField& f) {
            return (f.may_be_dynamic ? "\"dynamic\", 0 (the same) or a number in " : "a number in ") +
                   f.range.to_string();
          },
          [](const PairField& f) { return "an array of two numbers in " + f.range.to_string(); },
          [](const BooleanField&) { return std::string("true or false"); },
          [](const TextField& f) { return f.choices.empty() ? "a string" : "one of " + quote_all(f.choices); },
          [](const TextsField&) {
            return std::string("an array of strings in UTF-8 without control characters, such as [\"one\", \"two\"]");
          },
          []<typename Row>(const TablesField<Row>&) {
            return "tables, each [[" + std::string(table_name<Row>()) + "]]";
          },
          [](const PathField&) { return std::string("a path as a string in UTF-8 without control characters"); }},
      field);
}

// Whether the present value lies in its range.
bool in_range(const Field& field) {
  return std::visit(
      Overloaded{[](const IntegerField& f) {
                   return (*f.value >= f.least && *f.value <= f.most) || (f.may_be_auto && *f.value == kAuto);
                 },
                 [](const UnsignedField& f) { return *f.value <= kMostUnsigned; },
                 [](const RealField& f) { return (f.may_be_dynamic && *f.value == 0) || f.range.contains(*f.value); },
                 [](const PairField& f) { return f.range.contains(*f.first) && f.range.contains(*f.second); },
                 [](const BooleanField&) { return true; },
                 [](const TextField& f) {
                   const auto& choices = f.choices;
                   return choices.empty() ? f.any_characters || printable(*f.value)
                                          : std::find(choices.begin(), choices.end(), *f.value) != choices.end();
                 },
                 [](const TextsField& f) { return std::all_of(f.value->begin(), f.value->end(), printable); },
                 []<typename Row>(const TablesField<Row>& f) {
                   return std::all_of(f.value->begin(), f.value->end(), [](Row row) {
                     const std::vector<Key> keys = keys_of(row);
                     return std::all_of(keys.begin(), keys.end(), [](const Key& key) { return in_range(key.field); });
                   });
                 },
                 [](const PathField& f) { return printable(f.value->string()); }},
      field);
}

bool take_integer(const toml::node& value, const IntegerField& field) {
  if (const auto* integer = value.as_integer()) {
    *field.value = integer->get();
    return !field.may_be_auto || integer->get() >= 0;  // a negative number is out of range, not "auto"
  }
  const auto* text = value.as_string();
  if (!field.may_be_auto || text == nullptr || text->get() != "auto") return false;
  *field.value = kAuto;
  return true;
}

bool take_unsigned(const toml::node& value, const UnsignedField& field) {
  if (const auto* integer = value.as_integer()) {
    *field.value = static_cast<std::uint64_t>(integer->get());
    return integer->get() >= 0;
  }
  const auto* text = value.as_string();
  if (text == nullptr || !field.is_size) return false;
  *field.value = parse_bytes(text->get());
  return true;
}

bool take_real(const toml::node& value, const RealField& field) {
  const auto* text = value.as_string();
  const bool dynamic = field.may_be_dynamic && text != nullptr && text->get() == "dynamic";
  const std::optional<double> number = dynamic ? 0.0 : number_in(value);
  *field.value = number.value_or(*field.value);
  return number.has_value();
}

bool take_pair(const toml::node& value, const PairField& field) {
  const auto* array = value.as_array();
  if (array == nullptr || array->size() != 2) return false;
  const std::optional<double> first = number_in((*array)[0]), second = number_in((*array)[1]);
  if (!first || !second) return false;
  *field.first = *first;
  *field.second = *second;
  return true;
}

// One text stands for a list of one.
bool take_texts(const toml::node& value, std::vector<std::string>& texts) {
  if (const auto* one = value.as_string()) {
    texts = {one->get()};
    return true;
  }
  const auto* array = value.as_array();
  if (array == nullptr) return false;
  texts.clear();
  for (const toml::node& element : *array) {
    if (!element.is_string()) return false;
    texts.push_back(element.as_string()->get());
  }
  return true;
}

// For kinds of value that TOML has itself: false when `value` is of another kind.
template <typename Toml, typename Target>
bool take(const toml::node& value, Target& target) {
  const auto* typed = value.as<Toml>();
  if (typed == nullptr) return false;
  target = Target(typed->get());
  return true;
}

// "run.toml:12": where `entry` is, in a table whose value begins at `where`. What is no line of a file stays.
std::string place_of(const toml::node& entry, std::string_view where) {
  const std::size_t colon = where.rfind(':') + 1;
  const std::string_view number = where.substr(colon);
  const bool names_line = colon > 0 && !number.empty() && number.find_first_not_of("0123456789") == number.npos;
  return std::string(where.substr(0, names_line ? colon : where.npos)) +
         (names_line ? std::to_string(entry.source().begin.line) : "");
}

template <typename Row>
bool take_tables(const toml::node& value, std::string_view where, std::vector<Row>& rows) {
  const auto* array = value.as_array();
  if (array == nullptr) return false;
  rows.clear();
  for (const toml::node& element : *array) {
    const toml::table* table = element.as_table();
    if (table == nullptr) return false;
    const std::vector<Key> keys = keys_of(rows.emplace_back());
    for (const auto& [found, entry] : *table) {
      const std::string_view name = found.str();
      const auto key = std::find_if(keys.begin(), keys.end(), [&](const Key& k) { return k.name == name; });
      if (key == keys.end()) {
        std::string names;
        for (const Key& known : keys) names += (names.empty() ? "" : ", ") + std::string(known.name);
        const std::string section(table_name<Row>());
        throw BadInput("unknown key " + section + "." + std::string(name) + " in " + place_of(entry, where) + "; [[" +
                       section + "]] has " + names);
      }
      assign_value(*key, entry, place_of(entry, where));
    }
  }
  return true;
}

bool take_value(const Field& field, const toml::node& value, std::string_view where) {
  return std::visit(
      Overloaded{[&](const IntegerField& f) { return take_integer(value, f); },
                 [&](const UnsignedField& f) { return take_unsigned(value, f); },
                 [&](const RealField& f) { return take_real(value, f); },
                 [&](const PairField& f) { return take_pair(value, f); },
                 [&](const BooleanField& f) { return take<bool>(value, *f.value); },
                 [&](const TextField& f) { return take<std::string>(value, *f.value); },
                 [&](const TextsField& f) { return take_texts(value, *f.value); },
                 [&]<typename Row>(const TablesField<Row>& f) { return take_tables(value, where, *f.value); },
                 [&](const PathField& f) { return take<std::string>(value, *f.value); }},
      field);
}

// "the string "fast"", "the integer 3", "an array of 2".
std::string describe(const toml::node& value) {
  if (const auto* text = value.as_string()) return "the string " + quote(text->get().substr(0, 80));
  if (const auto* integer = value.as_integer()) return "the integer " + std::to_string(integer->get());
  if (const auto* real = value.as_floating_point()) return "the number " + real_to_toml(real->get());
  if (const auto* boolean = value.as_boolean()) return boolean->get() ? "true" : "false";
  if (const auto* array = value.as_array()) return "an array of " + std::to_string(array->size());
  if (value.is_table()) return "a table";
  return "a date or time";
}

// `found` in words; `where` may be empty.
[[noreturn]] void reject(const Key& key, std::string_view where, const std::string& found) {
  std::string message = std::string(key.section) + "." + std::string(key.name);
  if (!where.empty()) message += " in " + std::string(where);
  const auto* text = std::get_if<TextField>(&key.field);
  if (text != nullptr && !text->choices.empty() && found.starts_with("the string ")) {
    throw BadInput(message + ": " + found.substr(11) + " is not one of " + quote_all(text->choices));
  }
  throw BadInput(message + ": expected " + expectation(key.field) + ", found " + found);
}

}  // namespace

void assign_value(const Key& key, const toml::node& value, std::string_view where) {
  bool taken = false;
  try {
    taken = take_value(key.field, value, where);
  } catch (const BadInput&) {
    if (std::holds_alternative<SourcesField>(key.field) || std::holds_alternative<GroupsField>(key.field)) throw;
    // parse_bytes: the message below says what was expected
  }
  if (!taken || !in_range(key.field)) reject(key, where, describe(value));
}

void check_value(const Key& key) {
  if (in_range(key.field)) return;
  const bool is_text = std::holds_alternative<TextField>(key.field);
  reject(key, "", (is_text ? "the string " : "") + value_to_toml(key.field));
}

std::string value_to_toml(const Field& field) {
  return std::visit(
      Overloaded{[](const IntegerField& f) {
                   return f.may_be_auto && *f.value == kAuto ? quote("auto") : std::to_string(*f.value);
                 },
                 [](const UnsignedField& f) { return std::to_string(*f.value); },
                 [](const RealField& f) {
                   return f.may_be_dynamic && *f.value == 0 ? quote("dynamic") : real_to_toml(*f.value);
                 },
                 [](const PairField& f) { return "[" + real_to_toml(*f.first) + ", " + real_to_toml(*f.second) + "]"; },
                 [](const BooleanField& f) { return std::string(*f.value ? "true" : "false"); },
                 [](const TextField& f) { return quote(*f.value); },
                 [](const TextsField& f) {
                   return "[" + quote_all({f.value->begin(), f.value->end()}) + "]";
                 },
                 []<typename Row>(const TablesField<Row>& f) {
                   std::string text;
                   for (Row row : *f.value) {
                     std::string table;
                     for (const Key& key : keys_of(row)) {
                       table += (table.empty() ? "" : ", ") + std::string(key.name) + " = " + value_to_toml(key.field);
                     }
                     text += (text.empty() ? "{" : ", {") + table + "}";
                   }
                   return "[" + text + "]";
                 },
                 [](const PathField& f) { return quote(f.value->string()); }},
      field);
}

}  // namespace l2l::runtime

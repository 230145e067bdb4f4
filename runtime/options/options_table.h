// Every key of a config, written once: reading, `section.key=value`, suggestions, range checks and to_toml() all walk
// this table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "l2l/options.h"

namespace l2l::runtime {

// Bounds of a real number; a bound may be excluded.
struct Interval {
  double least, most;
  bool excludes_least = false, excludes_most = false;
  bool contains(double value) const;  // false for NaN
  std::string to_string() const;      // "[0, 1)"
};

// A word may stand for one value: "auto" for -1, "dynamic" for 0.
struct IntegerField {
  std::int64_t* value;
  std::int64_t least, most;
  bool may_be_auto = false;
};
struct UnsignedField {  // TOML integers are signed: at most 2^63 - 1
  std::uint64_t* value;
  bool is_size;  // may be a string such as "8GiB"
};
struct RealField {
  double* value;
  Interval range;
  bool may_be_dynamic = false;
};
struct PairField {  // an array of two numbers
  double* first;
  double* second;
  Interval range;
};
struct BooleanField {
  bool* value;
};
struct TextField {
  std::string* value;
  std::vector<std::string_view> choices;  // what this version accepts; empty: any text
  bool any_characters = false;            // without choices: control characters, too
};
struct TextsField {
  std::vector<std::string>* value;
};
template <typename Row>
struct TablesField {  // an array of tables
  std::vector<Row>* value;
};
using SourcesField = TablesField<DataSource>;
using GroupsField = TablesField<ParameterGroup>;
struct PathField {
  std::filesystem::path* value;
};

using Field = std::variant<IntegerField, UnsignedField, RealField, PairField, BooleanField, TextField, TextsField,
                           SourcesField, GroupsField, PathField>;

struct Key {
  std::string_view section, name;
  Field field;  // points into the options that the table was made for
};

// The table, in the order in which to_toml() writes it; a section's keys stand together.
std::vector<Key> option_keys(Options& options);
// Of one table of [[data.source]], or of [[optimizer.group]].
std::vector<Key> keys_of(DataSource& source);
std::vector<Key> keys_of(ParameterGroup& group);

}  // namespace l2l::runtime

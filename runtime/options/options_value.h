// One value of the config: from TOML, checked against its key's range, and back to TOML.
#pragma once

#include <string>
#include <string_view>

#include <toml++/toml.h>

#include "runtime/options/options_table.h"

namespace l2l::runtime {

// Stores `value` in the field of `key`. Throws BadInput naming the key, `where` it stands ("run.toml:12"), what was
// expected and what was found.
void assign_value(const Key& key, const toml::node& value, std::string_view where);

// Throws BadInput when the field's present value is outside its range.
void check_value(const Key& key);

// The field's present value in TOML; numbers round-trip.
std::string value_to_toml(const Field& field);

}  // namespace l2l::runtime

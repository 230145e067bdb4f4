// What keys of the config that were not set stand for, where that follows from model.architecture.
#pragma once

#include <string>
#include <string_view>

#include "l2l/options.h"

namespace l2l::runtime {

// Whether `key` ("model.dropout") was set: it is in Options::given, or, in options that were made in code, has another
// value than Options() has.
bool is_set(const Options& options, std::string_view key);

// The value of `key`, in TOML.
std::string value_of(Options options, std::string_view key);

// [data] as it is read for one source: with the files and the own keys of that, and without validation.
DataOptions options_of(const DataSource& source, DataOptions data);

// Whether any of the data are text of which each byte is a token. Files of "auto" with a name that ids have may be
// text, but are not taken for it.
bool reads_bytes(const Options& options);

// Whether attention is one op wherever the model has it: a program's own blocks may have separate ones.
bool fuses_attention(const ModelOptions& model);

// `options` of a model without model.pretrained; of keys that were not set, model.dropout is that of the architecture,
// and model.vocabulary has room for the mask where an encoder reads bytes. Models of images get their layers, and what
// follows from their variant.
Options with_architecture_defaults(Options options);

// `options` in which a table of positions stays as long as it is, and scaled rotary positions turn as they do, whatever
// model.sequence becomes.
Options with_its_positions(Options options);
// `options` that go on from a run with `saved`: where model.sequence or model.positions is another, scaled rotary
// positions turn as they did, unless model.rope_original_positions says how.
Options with_saved_positions(Options options, const Options& saved);

}  // namespace l2l::runtime

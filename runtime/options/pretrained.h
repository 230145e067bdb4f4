// model.pretrained: the model that its directory describes, and what options say of it.
#pragma once

#include "l2l/options.h"

namespace l2l::runtime {

// Most tokens of a sequence where model.sequence is not set and the directory allows more.
inline constexpr std::int64_t kPretrainedSequence = 1024;

// `options` with `model` replaced by what the directory's config.json says, and model.pretrained empty; where
// it is empty already, with the defaults of its architecture. Throws BadInput naming file and key when a key that was
// set contradicts the file.
Options with_pretrained_model(const Options& options);

std::string lower_case(std::string text);  // ASCII's letters, as names of classes are compared

// Whether the head that the directory has, if any, is not that of `model`, or is of other classes.
bool has_other_classes(const std::filesystem::path& pretrained, const ModelOptions& model);

// The same as with_pretrained_model() for a run that goes on from a checkpoint, which was written with the options
// `saved` and has the model: its directory is not needed. Keys of [model] that were set stay, for check_changes() to
// compare.
Options with_saved_model(Options options, const Options& saved);

// Throws BadInput where the directory of frozen parameters, model.base, is not there.
void require_base(const std::filesystem::path& base);

}  // namespace l2l::runtime

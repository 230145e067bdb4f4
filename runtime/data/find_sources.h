// From the options of [data] to a stream of tokens: which kind of files they are, by name or by content.
#pragma once

#include "l2l/options.h"
#include "runtime/data/data_files.h"
#include "runtime/data/samples.h"
#include "runtime/data/text_documents.h"

namespace l2l::runtime {

// What a model takes of texts besides their tokens.
struct TextModel {
  std::int64_t token_types = 0;  // as in TextSettings
  models::HeadKind head = models::HeadKind::language;
  std::int64_t labels = 0;                    // classes
  std::vector<std::string> label_names = {};  // of the classes; may be empty
};
TextModel text_model(const ModelOptions& model);

// How files of this kind are read.
TextSettings text_settings(const DataOptions& data, TextKind kind, const TextModel& model);

// Throws BadInput for JSON Lines and tables that are UTF-16, by their first 64 KiB: a byte order mark, or bytes of 0.
void refuse_utf16(const std::filesystem::path& file);

// The files of `patterns`, tokenized where they are text. `key`: "data.train". Throws BadInput naming
// key, file and reason.
DataFiles find_sources(const std::vector<std::string>& patterns, const DataOptions& data, const std::string& key,
                       const TextModel& model);

// data.samples as options give it; "auto": packed where `files` are rows or separated documents, else windows of a
// stream.
SampleKind sample_kind(const DataOptions& data, const DataFiles* files);

}  // namespace l2l::runtime

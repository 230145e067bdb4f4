// The tokenizer of a model directory as keys of a GGUF file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "formats/gguf.h"

namespace l2l::runtime {

// Appends the keys of tokens, special tokens and chat template. `tokenizer`: as data.tokenizer names it; "bytes": where
// the vocabulary is of 256 tokens, those; empty: there is none. `folder`: of the model, whose tokenizer_config.json,
// config.json and chat_template.jinja say the rest. Throws BadInput naming what such files cannot say.
void add_gguf_tokenizer(const std::string& tokenizer, const std::filesystem::path& folder, std::int64_t vocabulary,
                        formats::GgufMetadata& metadata, std::vector<std::string>& remarks);

}  // namespace l2l::runtime

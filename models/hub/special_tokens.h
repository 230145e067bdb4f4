// What a Hugging Face directory's tokenizer says of special tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace l2l::models {

// The id of the token that stands for masked ones: the mask_token of tokenizer_config.json, or else "[MASK]" or
// "<mask>", by its number in tokenizer.json or its line in vocab.txt. Nothing when the directory has no such token.
// Throws BadInput naming the file when one of these is not what it claims to be.
std::optional<std::int64_t> mask_token(const std::filesystem::path& directory);

}  // namespace l2l::models

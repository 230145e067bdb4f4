// The characters that stand for bytes in byte-level vocabularies: each byte is one printable character (Radford et al.,
// "Language Models are Unsupervised Multitask Learners", 2019: bytes_to_unicode of GPT-2).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace l2l::text {

// By byte.
const std::array<char32_t, 256>& byte_characters();
std::string to_byte_characters(std::string_view bytes);
// Nothing when a character stands for no byte. `text`: valid UTF-8.
std::optional<std::string> from_byte_characters(std::string_view text);

}  // namespace l2l::text

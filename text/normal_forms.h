// Unicode's normal forms (of Unicode 9) and simple case mapping, by ICU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace l2l::text {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// `text`: valid UTF-8.
std::string normal_form(std::string_view text, NormalForm form);
// Each code point by itself: no rules that look at its neighbours.
void append_lowercase(std::string& result, char32_t c);
// Lengths in bytes of the grapheme clusters of `text`.
std::vector<std::size_t> grapheme_lengths(std::string_view text);

}  // namespace l2l::text

// Unicode's normal forms (of Unicode 9) and simple case mapping, by ICU.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace l2l::text {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// ICU counts in 32 bits, so texts go through it in pieces of about so many bytes.
inline constexpr std::size_t kPieceBytes = 1 << 20;

// `text`: valid UTF-8.
std::string normal_form(std::string_view text, NormalForm form, std::size_t piece_bytes = kPieceBytes);
// Each code point by itself: no rules that look at its neighbours.
void append_lowercase(std::string& result, char32_t c);
// Calls found(cluster) for each grapheme cluster of `text`, in order.
void for_each_grapheme(std::string_view text, const std::function<void(std::string_view)>& found,
                       std::size_t piece_bytes = kPieceBytes);

}  // namespace l2l::text

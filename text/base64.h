// Base64 (RFC 4648), as tokenizer files have binary parts in it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace l2l::text {

// Nothing when `text` is not base64, with its padding.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace l2l::text

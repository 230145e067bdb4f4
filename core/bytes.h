// Byte counts: the unit of sizes, offsets and counters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace l2l {

using Bytes = std::uint64_t;

inline constexpr Bytes kKiB = 1024;
inline constexpr Bytes kMiB = 1024 * kKiB;
inline constexpr Bytes kGiB = 1024 * kMiB;

// Rounds `value` up to a multiple of `alignment` (a power of two).
constexpr Bytes align_up(Bytes value, Bytes alignment) { return (value + alignment - 1) & ~(alignment - 1); }

// Takes "8GiB", "500MB", "1.5GiB" or plain bytes. Throws BadInput naming the text.
Bytes parse_bytes(std::string_view text);

// Three significant digits and a binary unit: "1.50 GiB".
std::string format_bytes(Bytes bytes);

}  // namespace l2l

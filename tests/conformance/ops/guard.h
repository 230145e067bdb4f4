// Bytes behind each operand that nobody may write.
#pragma once

#include <algorithm>
#include <cstddef>

namespace l2l::test {

inline constexpr std::size_t kGuardBytes = 128;
inline constexpr std::byte kGuard{0xA5};

// `guard`: host memory, kGuardBytes.
inline bool intact(const std::byte* guard) {
  return std::all_of(guard, guard + kGuardBytes, [](std::byte byte) { return byte == kGuard; });
}

}  // namespace l2l::test

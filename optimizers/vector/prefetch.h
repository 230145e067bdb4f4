// Elements prefetched together: 64, so that a stream of one byte per element fills a cache line.
#pragma once

#include <cstddef>

namespace l2l::optimizers {

inline constexpr std::size_t kRows = 64;
// How far ahead, in bytes of each stream.
inline constexpr std::size_t kPrefetchBytes = 2048;

// Prefetches the cache lines of kRows elements, kPrefetchBytes after `at`; harmless past the end of an array.
template <typename T>
inline __attribute__((always_inline)) void prefetch_rows(const T* at) {
  const char* const ahead = reinterpret_cast<const char*>(at) + kPrefetchBytes;
  for (std::size_t byte = 0; byte < kRows * sizeof(T); byte += 64) __builtin_prefetch(ahead + byte, 0, 3);
}

}  // namespace l2l::optimizers

// Lower bounds of the footprint, each with the tensors that prove it.
#pragma once

#include <vector>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

enum class Certificate {
  live_load,  // tensors alive at one moment (with several streams: of one of them)
  antichain,  // tensors of which no two can share memory
  extent,     // one tensor or group, which ends there because it is pinned or that large
};
const char* name_of(Certificate certificate);  // "live load"

struct Bound {
  Bytes bytes = 0;  // no plan has a smaller footprint
  Certificate certificate = Certificate::live_load;
  std::vector<Index> tensors = {};
};

// The largest known bound of a problem that check() accepts. One stream takes O(n log n) time. Several streams take a
// maximum flow over pairs of tensors; beyond kMostForFlow tensors the bound is the live load of a single stream.
Bound lower_bound(const Problem& problem);
inline constexpr std::size_t kMostForFlow = 20'000;

}  // namespace l2l::compiler::memory

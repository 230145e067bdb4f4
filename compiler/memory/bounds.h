// Lower bounds of the footprint, each with the tensors that prove it.
#pragma once

#include <functional>
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

// For problems that check() accepts. The live load, of several streams the largest of a single one, or the largest
// extent. Takes O(n log n) time.
Bound quick_bound(const Problem& problem);

// The largest known bound. Of several streams that is the heaviest antichain, which takes a maximum flow over pairs of
// tensors: beyond kMostForFlow tensors, where it returns nothing (antichain.h), or when stop() is true, it is
// quick_bound(), as with one stream.
Bound lower_bound(const Problem& problem, const std::function<bool()>& stop = {});
inline constexpr std::size_t kMostForFlow = 20'000;

}  // namespace l2l::compiler::memory

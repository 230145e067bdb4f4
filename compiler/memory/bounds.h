// What no plan can be smaller than, with the tensors that show it.
#pragma once

#include <vector>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

enum class Certificate {
  live_load,  // tensors alive at one moment (of several streams: of one of them)
  antichain,  // tensors none of which is done before another begins
  extent,     // one tensor or group alone, at the place where it is pinned
};
const char* name_of(Certificate certificate);  // "live load"

struct Bound {
  Bytes bytes = 0;  // the sum of the sizes of `tensors`, all but the last in memory aligned up; of an extent its end
  Certificate certificate = Certificate::live_load;
  std::vector<Index> tensors = {};
};

// The largest of all. Takes a problem that check() accepts. One stream: in n log n time. Several: by a largest flow
// over pairs of tensors, when there are at most kMostForFlow; of more, the live load of single streams.
Bound lower_bound(const Problem& problem);
inline constexpr std::size_t kMostForFlow = 20'000;

// The largest sum of sizes alive at one moment of a stream.
Bytes live_load(const Problem& problem);

}  // namespace l2l::compiler::memory

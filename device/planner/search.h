// Solvers for what greedy orders (greedy.h) do not bring to the bound. All take the best plan known so far and return
// one that is at least as good; all stop at the bound, at the deadline, or when the search is complete.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "device/planner/blocks.h"

namespace l2l::device::planner {

struct SearchLimits {
  Bytes bound = 0;  // no plan is smaller (bounds.h)
  std::chrono::steady_clock::time_point deadline;
  std::uint64_t seed = 1;
  int threads = 1;
  std::uint64_t nodes =
      ~std::uint64_t{0};  // steps of a search, all threads together; alone it keeps results off the clock
};

struct SearchResult {
  std::vector<Bytes> offsets;  // per block
  Bytes footprint = 0;
  bool complete = false;  // nothing smaller exists
};

// Canonical-order depth-first search with section bounds, dominance and decomposition (exact_search.cpp).
SearchResult exact_search(const Blocks& blocks, SearchResult best, const SearchLimits& limits);

// Order search for what is too large for that (local_search.cpp). Deterministic for a seed while the deadline does not
// cut it.
SearchResult local_search(const Blocks& blocks, SearchResult best, const SearchLimits& limits);

}  // namespace l2l::device::planner

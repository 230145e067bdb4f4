// Searches for what greedy orders (greedy.h) do not bring to the bound.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "compiler/memory/blocks.h"

namespace l2l::compiler::memory {

struct SearchResult {
  std::vector<Bytes> offsets = {};  // per block
  Bytes footprint = 0;
  bool complete = false;  // nothing smaller exists
};

struct SearchLimits {
  Bytes bound = 0;  // no plan is smaller (bounds.h)
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::uint64_t seed = 1;
  int threads = 1;
  std::function<void(const SearchResult&)> improved = {};  // called for every smaller plan, by the thread of run()
};

// Thread-bound. Goes on where it stopped. What it finds depends on problem, seed and steps alone, not on threads or
// time, unless the deadline cuts it.
class Search {
 public:
  virtual ~Search() = default;

  // Looks for plans smaller than `best` and puts them there. Returns at the bound, at the deadline, when it has seen
  // all there is, or after about `steps` more: meetings and members of sections looked at, by all threads together.
  virtual void run(SearchResult& best, std::uint64_t steps) = 0;
};

// Depth-first in canonical order with section bounds, dominance and decomposition (exact_search.cpp). Null for groups
// and for what is too large. `blocks` stays alive.
std::unique_ptr<Search> exact_search(const Blocks& blocks, const SearchLimits& limits);

// Order search (local_search.cpp). `blocks` stays alive.
std::unique_ptr<Search> local_search(const Blocks& blocks, const SearchLimits& limits);

}  // namespace l2l::compiler::memory

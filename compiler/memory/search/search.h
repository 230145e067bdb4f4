// Searches for smaller plans than greedy.h finds.
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
  bool complete = false;  // no smaller plan exists
};

struct SearchLimits {
  Bytes bound = 0;  // no plan is smaller (bounds.h)
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::uint64_t seed = 1;
  int threads = 1;
  std::function<void(const SearchResult&)> improved = {};  // called by the thread of run() for every smaller plan
};

// Thread-bound. Unless the deadline cuts it short, the result depends on problem, seed and steps only, not on threads
// or time.
class Search {
 public:
  virtual ~Search() = default;

  // Replaces `best` by smaller plans; continues where the last call stopped. Returns at the bound, at the deadline,
  // when the search is exhausted, or after about `steps` further steps. A step is a look at one neighbour of a block,
  // or at one member of a section; the steps of all threads add up.
  virtual void run(SearchResult& best, std::uint64_t steps) = 0;
};

// Branch and bound (exact_search.cpp). Null for what it cannot search. `blocks` must be connected, and outlive it.
std::unique_ptr<Search> exact_search(const Blocks& blocks, const SearchLimits& limits);
// Neither problems with groups nor those that are too large. `blocks` need not be connected.
bool can_search_exactly(const Blocks& blocks);

// Search through orders of blocks (local_search.cpp). `blocks` must outlive it; of one stream and unconstrained, they
// need not be connected.
std::unique_ptr<Search> local_search(const Blocks& blocks, const SearchLimits& limits);
// Search through priorities of blocks (priority_search.cpp), for the same.
std::unique_ptr<Search> priority_search(const Blocks& blocks, const SearchLimits& limits);

}  // namespace l2l::compiler::memory

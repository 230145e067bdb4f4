#include "compiler/remat/dtr/search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/fault_point.h"
#include "core/philox.h"

namespace l2l::compiler::remat::dtr {
namespace {

constexpr double kAny = std::numeric_limits<double>::infinity();
constexpr double kSmall = 0.01;  // of the mean size

}  // namespace

std::size_t Search::stride(std::size_t candidates) {
  if (!shortcuts_.sample) return 1;
  RngKey key;
  key.seed = shortcuts_.seed;
  key.step = static_cast<std::uint32_t>(draws_ >> 34);
  const std::uint32_t word = philox(key, static_cast<std::uint32_t>(draws_ >> 2))[draws_ & 3];
  ++draws_;
  return 1 + word % std::max<std::size_t>(1, static_cast<std::size_t>(std::sqrt(candidates)));
}

bool Search::small(Index storage) {
  const std::vector<Graph::Storage>& storages = state_.graph.storages();
  for (; summed_ < storages.size(); ++summed_) bytes_ += static_cast<double>(storages[summed_].size);
  return static_cast<double>(storages[storage].size) < kSmall * bytes_ / static_cast<double>(summed_);
}

// Calls visit(storage) until it returns false.
template <typename Visit>
void Search::each(Pool& pool, bool small_too, Visit visit) {
  if (shortcuts_.sample) pool.compact();
  const std::vector<Index>& places = pool.places();
  for (std::size_t i = stride(pool.count()) - 1; i < places.size(); i += stride(pool.count())) {
    if (places[i] == kNone || (!small_too && small(places[i]))) continue;
    if (!visit(places[i])) return;
  }
}

void Search::take_smallest(Pool& pool, bool small_too) {
  double best = kAny;
  Index found = kNone;
  const bool first = fault_point("dtr.first_minimum");
  each(pool, small_too, [&](Index storage) {
    const double score = heuristic_.score(storage, best);
    if (score < best || (score == best && !(first && found != kNone))) {
      best = score;
      found = storage;
    }
    return score != 0;
  });
  if (found != kNone) chosen_.push_back(found);
}

void Search::take_batch(Pool& pool, bool small_too, Bytes missing) {
  candidates_.clear();
  each(pool, small_too, [&](Index storage) {
    candidates_.push_back({heuristic_.score(storage, kAny), storage});
    return true;
  });
  std::reverse(candidates_.begin(), candidates_.end());  // of equal scores the last comes first
  std::stable_sort(candidates_.begin(), candidates_.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score < b.score; });
  double freed = 0;
  const double wanted = shortcuts_.batch * static_cast<double>(missing);
  for (const Candidate& candidate : candidates_) {
    if (!chosen_.empty() && freed >= wanted) break;
    chosen_.push_back(candidate.storage);
    freed += static_cast<double>(state_.graph.storages()[candidate.storage].size);
  }
}

const std::vector<Index>& Search::choose(Pool& pool, Bytes missing) {
  chosen_.clear();
  for (const bool small_too : {!shortcuts_.ignore_small, true}) {
    if (!chosen_.empty()) break;
    shortcuts_.batch > 0 ? take_batch(pool, small_too, missing) : take_smallest(pool, small_too);
  }
  return chosen_;
}

}  // namespace l2l::compiler::remat::dtr

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

void Search::add(Index storage) {
  if (storage >= added_.size()) added_.resize(storage + 1);
  added_[storage] = next_;
  candidates_.emplace_hint(candidates_.end(), next_++, storage);
}

std::size_t Search::stride() {
  if (!shortcuts_.sample) return 1;
  RngKey key;
  key.seed = shortcuts_.seed;
  key.step = static_cast<std::uint32_t>(draws_ >> 34);
  const std::uint32_t word = philox(key, static_cast<std::uint32_t>(draws_ >> 2))[draws_ & 3];
  ++draws_;
  return 1 + word % std::max<std::size_t>(1, static_cast<std::size_t>(std::sqrt(candidates_.size())));
}

bool Search::small(Index storage) {
  const std::vector<Graph::Storage>& storages = state_.graph.storages();
  for (; summed_ < storages.size(); ++summed_) bytes_ += static_cast<double>(storages[summed_].size);
  return static_cast<double>(storages[storage].size) < kSmall * bytes_ / static_cast<double>(summed_);
}

// Calls visit(storage) until it returns false.
template <typename Visit>
void Search::each(bool small_too, Visit visit) {
  auto candidate = candidates_.begin();
  std::size_t at = 0;
  for (std::size_t i = stride() - 1; i < candidates_.size(); i += stride()) {
    for (; at < i; ++at) ++candidate;
    if (!small_too && small(candidate->second)) continue;
    if (!visit(candidate->second)) return;
  }
}

void Search::take_smallest(bool small_too) {
  double best = kAny;
  Index found = kNone;
  const bool first = fault_point("dtr.first_minimum");
  each(small_too, [&](Index storage) {
    const double score = heuristic_.score(storage, best);
    if (score < best || (score == best && !(first && found != kNone))) {
      best = score;
      found = storage;
    }
    return score != 0;
  });
  if (found != kNone) chosen_.push_back(found);
}

void Search::take_batch(bool small_too, Bytes missing) {
  scored_.clear();
  each(small_too, [&](Index storage) {
    scored_.push_back({heuristic_.score(storage, kAny), storage});
    return true;
  });
  std::reverse(scored_.begin(), scored_.end());  // of equal scores the last comes first
  std::stable_sort(scored_.begin(), scored_.end(), [](const Scored& a, const Scored& b) { return a.score < b.score; });
  double freed = 0;
  const double wanted = shortcuts_.batch * static_cast<double>(missing);
  for (const Scored& candidate : scored_) {
    if (!chosen_.empty() && freed >= wanted) break;
    chosen_.push_back(candidate.storage);
    freed += static_cast<double>(state_.graph.storages()[candidate.storage].size);
  }
}

const std::vector<Index>& Search::choose(Bytes missing) {
  chosen_.clear();
  for (const bool small_too : {!shortcuts_.ignore_small, true}) {
    if (!chosen_.empty()) break;
    shortcuts_.batch > 0 ? take_batch(small_too, missing) : take_smallest(small_too);
  }
  return chosen_;
}

}  // namespace l2l::compiler::remat::dtr

// The best choice of all whose layers lie on a face (chain_frames.h) but for a few strays.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/remat/chain_frames.h"
#include "compiler/remat/face.h"

namespace l2l::compiler::remat {

struct SearchProblem {
  Loads types = {};                      // each with an option; none as good as another one in all three respects
  std::vector<std::size_t> layers = {};  // per type
  std::int64_t device = 0, host = 0;     // what all of them may take
};

// Larger than any time; whole numbers up to here are exact in doubles.
inline constexpr std::int64_t kEndlessTime = std::int64_t{1} << 52;

struct SearchResult {
  std::int64_t time = kEndlessTime;
  std::vector<std::vector<std::size_t>> layers = {};  // [type][option]
};

// Thread-bound. Movable between calls.
class ChainSearch {
 public:
  // `most_strays` as in choose().
  ChainSearch(SearchProblem problem, std::size_t most_strays);

  // No choice takes less; kEndlessTime where it is plain that there is none.
  double bound() const { return bound_; }
  // Replaces `best` by the least of those choices that take less. Returns whether it is then proved that no other
  // choice takes less than `best` either.
  bool improve(SearchResult& best);

 private:
  void find_bound(const Tariff& tariff);
  bool fits_at_least() const;
  bool hopeless(double cost, const SearchResult& best) const;
  double extra_cost(const Move& move) const;
  double extra_cost(const Frame& frame) const;
  bool search(const Frame& frame, SearchResult& best);
  bool descend(std::size_t first, std::size_t left, double cost, SearchResult& best);
  void search_face(SearchResult& best) const;
  Load base_load() const;
  void count(const FacePoint& point, SearchResult& best) const;

  SearchProblem problem_;
  std::vector<Frame> frames_;
  std::size_t all_layers_, most_strays_;
  double bound_ = -1;
  Tariff tariff_ = {};              // which proves the bound
  std::vector<double> least_ = {};  // per type: what its cheapest option costs at it

  // Of the frame being searched.
  const Frame* frame_ = nullptr;
  std::vector<Move> others_ = {};          // options that it does not have
  std::vector<Move> strays_ = {};          // layers that take one of those now
  std::vector<std::size_t> on_face_ = {};  // per type: layers that do not
};

}  // namespace l2l::compiler::remat

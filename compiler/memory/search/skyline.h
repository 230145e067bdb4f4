// A partial plan below a capacity, built from the bottom up, with undo: the state of the exact search. For every item
// that is not placed yet it keeps the lowest offset still possible, and for every section the lowest of those, its
// floor: floor plus remaining sizes must not exceed the capacity. Sections are those of M. D. Moffitt, "MiniMalloc",
// ASPLOS 2023; here floors derive from the items, so that sections may be any cliques, also on several streams.
#pragma once

#include <span>
#include <vector>

#include "compiler/memory/search/search_graph.h"

namespace l2l::compiler::memory {

// Thread-bound.
class Skyline {
 public:
  static constexpr Bytes kNever = ~Bytes{0};

  // `graph` must outlive it. `capacity` is a multiple of the alignment.
  Skyline(const SearchGraph& graph, Bytes capacity);

  // Propagates the sizes. False: nothing fits below the capacity.
  bool start();
  // Places `item` at lowest(item); none of its unplaced neighbours may have a lower offset. False: the rest cannot fit.
  bool place(Index item);
  // Decides that none of `items`, which share a section and a lowest offset, is placed there: each will rest on an item
  // still to be placed. False: the rest cannot fit.
  bool exclude(std::span<const Index> items);

  struct Mark {
    std::size_t changes, placed;
  };
  Mark mark() const { return {trail_.size(), placed_order_.size()}; }
  void undo(Mark mark);

  const SearchGraph& graph() const { return graph_; }
  Bytes lowest(Index item) const { return lowest_[item]; }  // its offset, when placed
  // The highest end of a placed neighbour: the offset at which the item would rest on it.
  Bytes support(Index item) const { return support_[item]; }
  bool is_lowest_of_neighbours(Index item) const;
  std::span<const Index> left(Index section) const {
    return {members_.data() + graph_.sections.begin[section], left_[section]};
  }
  Bytes floor(Index section) const { return floor_[section]; }    // kNever: all are placed
  Bytes second(Index section) const { return second_[section]; }  // next higher lowest offset there, or kNever
  std::uint64_t at_floor(Index section) const { return at_floor_[section]; }
  Bytes slack(Index section) const { return capacity_ - floor_[section] - rest_[section]; }
  // One stream: unplaced items that are in this section and the next one.
  std::uint32_t crossing(Index section) const { return crossing_[section]; }
  std::uint64_t steps() const { return steps_; }  // search.h, Search::run()
  // Per section: grows with every conflict found there, as in dom/wdeg (Boussemart et al., ECAI 2004). Survives undo().
  std::vector<double>& conflict_weights() { return weights_; }

 private:
  struct Change {
    Bytes* where;
    Bytes before;
  };

  void set(Bytes& where, Bytes value);
  void raise(Index item, Bytes value);
  void enqueue(Index section);
  bool propagate();
  bool update(Index section);
  void remove(Index item);
  void restore(Index item);

  const SearchGraph& graph_;
  const Bytes capacity_;
  std::vector<Bytes> lowest_, latest_, support_;  // per item
  std::vector<char> placed_;
  std::vector<Index> placed_order_;
  std::vector<Bytes> floor_, second_, at_floor_, rest_;  // per section
  // Members of each section, unplaced ones first. slots_ is the position of an item there, per entry of
  // graph_.sections_of; owners_ is its inverse.
  std::vector<Index> members_;
  std::vector<std::uint32_t> left_, slots_, owners_, crossing_;
  std::vector<Change> trail_;
  std::vector<Index> queue_;  // sections to update
  std::vector<char> queued_;
  std::vector<double> weights_;
  std::uint64_t steps_ = 0;
  bool failed_ = false;
};

}  // namespace l2l::compiler::memory

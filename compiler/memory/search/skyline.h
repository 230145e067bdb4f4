// A partial plan below a capacity, built from the bottom, that can be taken back. For every item not placed yet it
// keeps the lowest place it can still get; for every section the lowest of those (its floor), which with all sizes left
// must not pass the capacity. It follows the sections of M. D. Moffitt, "MiniMalloc", ASPLOS 2023; floors here come
// from the items, so that sections may be any sets of items that meet, also on several streams.
#pragma once

#include <span>
#include <vector>

#include "compiler/memory/search/search_graph.h"

namespace l2l::compiler::memory {

// Thread-bound.
class Skyline {
 public:
  static constexpr Bytes kNever = ~Bytes{0};

  // Both stay alive. `capacity` is a multiple of the alignment.
  Skyline(const SearchGraph& graph, Bytes capacity);

  // What follows from sizes alone. False: nothing fits below the capacity.
  bool start();
  // Puts `item` at lowest(item). No item that is left and meets it may have a lower place. False: what is left cannot
  // fit.
  bool place(Index item);
  // None of `items`, which share a section and a lowest place, is there: each will rest on something still to be
  // placed.
  bool refuse(std::span<const Index> items);

  struct Mark {
    std::size_t changes, placed;
  };
  Mark mark() const { return {trail_.size(), placed_order_.size()}; }
  void undo(Mark mark);

  const SearchGraph& graph() const { return graph_; }
  bool placed(Index item) const { return placed_[item] != 0; }
  Bytes lowest(Index item) const { return lowest_[item]; }  // its place, when placed
  // End of what is placed below it: it rests on that only when it is placed there.
  Bytes support(Index item) const { return support_[item]; }
  bool is_lowest_of_meetings(Index item) const;
  std::span<const Index> left(Index section) const {
    return {members_.data() + graph_.sections.begin[section], left_[section]};
  }
  Bytes floor(Index section) const { return floor_[section]; }    // kNever: nothing is left
  Bytes second(Index section) const { return second_[section]; }  // next higher lowest place there; kNever: none
  std::uint64_t at_floor(Index section) const { return at_floor_[section]; }
  Bytes slack(Index section) const { return capacity_ - floor_[section] - rest_[section]; }
  // One stream: items left that are in this section and the next one.
  std::uint32_t crossing(Index section) const { return crossing_[section]; }
  std::uint64_t steps() const { return steps_; }  // meetings and members of sections looked at
  // Grows where contradictions are found; survives undo().
  std::vector<double>& blame() { return blame_; }

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
  bool fits_below_all(Index item) const;

  const SearchGraph& graph_;
  const Bytes capacity_;
  std::vector<Bytes> lowest_, latest_, support_;  // per item
  std::vector<char> placed_;
  std::vector<Index> placed_order_;
  std::vector<Bytes> floor_, second_, at_floor_, rest_;  // per section
  // Members of a section: those left first. slots_ says where an item is, per entry of graph_.sections_of; owners_ the
  // way back.
  std::vector<Index> members_;
  std::vector<std::uint32_t> left_, slots_, owners_, crossing_;
  std::vector<Change> trail_;
  std::vector<Index> queue_;  // sections to look at
  std::vector<char> queued_;
  std::vector<double> blame_;
  std::uint64_t steps_ = 0;
  bool failed_ = false;
};

}  // namespace l2l::compiler::memory

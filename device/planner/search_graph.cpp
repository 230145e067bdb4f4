#include "device/planner/search_graph.h"

#include <algorithm>
#include <numeric>

#include "device/planner/cliques.h"

namespace l2l::device::planner {
namespace {

struct Event {
  Time time;
  bool begins;  // of one time, ends first: lifetimes are half-open
  bool chosen;
  Index item;
  Bytes size;
};

std::vector<Event> events_of(const Blocks& blocks, std::span<const Index> chosen) {
  const Problem& problem = blocks.problem();
  std::vector<Event> events;
  std::size_t next = 0;
  for (Index block = 0; block < blocks.count(); ++block) {
    const bool is_chosen = next < chosen.size() && chosen[next] == block;
    const Index item = is_chosen ? static_cast<Index>(next++) : 0;
    const Index tensor = blocks.parts(block)[0].tensor;
    events.push_back({problem.begin[tensor], true, is_chosen, item, blocks.size(block)});
    events.push_back({problem.end[tensor], false, is_chosen, item, blocks.size(block)});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    if (a.time != b.time) return a.time < b.time;
    return a.begins != b.begins ? a.begins < b.begins : a.item < b.item;
  });
  return events;
}

// The largest sets alive at once, in order of time: a sweep that closes one whenever an end follows a begin.
class Sweep {
 public:
  Sweep(SearchGraph& graph, std::size_t items) : graph_(graph), place_(items) {}

  void take(const Event& event) {
    if (!event.chosen) {
      others_ = event.begins ? others_ + event.size : others_ - event.size;
      most_others_ = std::max(most_others_, others_);
    } else if (event.begins) {
      place_[event.item] = alive_.size();
      alive_.push_back(event.item);
      grew_ = true;
      most_others_ = others_;
    } else {
      if (grew_) close();
      const std::size_t at = place_[event.item];
      place_[alive_.back()] = at;
      std::swap(alive_[at], alive_.back());
      alive_.pop_back();
      grew_ = false;
    }
  }

 private:
  void close() {
    Rows& rows = graph_.sections;
    rows.values.insert(rows.values.end(), alive_.begin(), alive_.end());
    std::sort(rows.values.end() - static_cast<std::ptrdiff_t>(alive_.size()), rows.values.end());
    rows.close_row();
    graph_.reserved.push_back(most_others_);
  }

  SearchGraph& graph_;
  std::vector<Index> alive_;
  std::vector<std::size_t> place_;  // of an item in alive_
  Bytes others_ = 0, most_others_ = 0;
  bool grew_ = false;
};

// The same relation by columns.
Rows transposed(const Rows& rows, std::size_t columns) {
  std::vector<std::uint32_t> counts(columns + 1, 0);
  for (const Index value : rows.values) ++counts[value + 1];
  std::partial_sum(counts.begin(), counts.end(), counts.begin());
  Rows result{counts, std::vector<Index>(rows.values.size())};
  for (std::size_t row = 0; row < rows.count(); ++row) {
    for (const Index value : rows[row]) result.values[counts[value]++] = static_cast<Index>(row);
  }
  return result;
}

Rows meetings_among(const Blocks& blocks, std::span<const Index> chosen) {
  constexpr Index kNone = ~Index{0};
  std::vector<Index> item_of(blocks.count(), kNone);
  for (std::size_t i = 0; i < chosen.size(); ++i) item_of[chosen[i]] = static_cast<Index>(i);
  Rows rows;
  for (const Index block : chosen) {
    for (const Index other : blocks.meetings(block)) {
      if (item_of[other] != kNone) rows.values.push_back(item_of[other]);
    }
    rows.close_row();
  }
  return rows;
}

}  // namespace

SearchGraph make_search_graph(const Blocks& blocks, std::span<const Index> chosen) {
  SearchGraph graph;
  graph.blocks.assign(chosen.begin(), chosen.end());
  for (const Index block : chosen) {
    graph.size.push_back(blocks.size(block));
    graph.pinned.push_back(blocks.pinned(block));
  }
  graph.meetings = meetings_among(blocks, chosen);
  graph.in_line = blocks.problem().streams == 1;
  if (graph.in_line) {
    Sweep sweep(graph, chosen.size());
    for (const Event& event : events_of(blocks, chosen)) sweep.take(event);
  } else {
    graph.sections = heavy_cliques(graph.meetings, graph.size);
    graph.reserved.assign(graph.sections.count(), 0);
  }
  graph.sections_of = transposed(graph.sections, chosen.size());
  return graph;
}

std::uint64_t count_members(const Blocks& blocks, std::span<const Index> chosen) {
  std::uint64_t alive = 0, members = 0;
  bool grew = false;
  for (const Event& event : events_of(blocks, chosen)) {
    if (!event.chosen) continue;
    if (!event.begins && grew) members += alive;
    alive = event.begins ? alive + 1 : alive - 1;
    grew = event.begins;
  }
  return members;
}

}  // namespace l2l::device::planner

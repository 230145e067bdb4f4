#include "compiler/memory/search/search_graph.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace l2l::compiler::memory {
namespace {

constexpr std::uint64_t kMostSharedSteps = 50'000'000;

class Cliques {
 public:
  explicit Cliques(const Blocks& blocks)
      : blocks_(blocks),
        words_((blocks.count() + 63) / 64),
        bits_(words_ * blocks.count(), 0),
        near_(blocks.count(), 0),
        weight_(blocks.count(), 0) {
    for (Index block = 0; block < blocks.count(); ++block) {
      for (const Index other : blocks.neighbours(block)) {
        bits_[block * words_ + other / 64] |= std::uint64_t{1} << other % 64;
      }
    }
  }

  std::vector<Index> by_size(Index block) {
    for (const Index other : blocks_.neighbours(block)) weight_[other] = blocks_.size(other);
    return grow(block);
  }
  std::vector<Index> by_shared(Index block) {
    for (const Index other : blocks_.neighbours(block)) near_[other] = blocks_.size(other);
    for (const Index other : blocks_.neighbours(block)) {
      weight_[other] = near_[other];
      for (const Index third : blocks_.neighbours(other)) weight_[other] += near_[third];
    }
    for (const Index other : blocks_.neighbours(block)) near_[other] = 0;
    return grow(block);
  }
  std::uint64_t shared_steps() const {
    std::uint64_t steps = 0;
    for (Index block = 0; block < blocks_.count(); ++block)
      steps += blocks_.neighbours(block).size() * blocks_.neighbours(block).size();
    return steps;
  }

 private:
  // Adds neighbours by descending weight_.
  std::vector<Index> grow(Index block) {
    std::vector<Index> order(blocks_.neighbours(block).begin(), blocks_.neighbours(block).end());
    std::sort(order.begin(), order.end(),
              [&](Index a, Index b) { return weight_[a] != weight_[b] ? weight_[a] > weight_[b] : a < b; });
    std::vector<Index> set{block};
    common_.assign(row(block), row(block) + words_);
    for (const Index next : order) {
      if ((common_[next / 64] >> next % 64 & 1) == 0) continue;
      set.push_back(next);
      for (std::size_t word = 0; word < words_; ++word) common_[word] &= row(next)[word];
    }
    std::sort(set.begin(), set.end());
    return set;
  }

  const std::uint64_t* row(Index block) const { return bits_.data() + block * words_; }

  const Blocks& blocks_;
  const std::size_t words_;
  std::vector<std::uint64_t> bits_;    // a row for each block: its neighbours
  std::vector<std::uint64_t> common_;  // neighbours of the whole set
  std::vector<Bytes> near_, weight_;
};

// Sorted and distinct; when stop() becomes true, blocks are left out.
Rows heavy_cliques(const Blocks& blocks, const std::function<bool()>& stop) {
  Cliques cliques(blocks);
  const bool shared = cliques.shared_steps() <= kMostSharedSteps;
  std::vector<std::vector<Index>> sets;
  for (Index block = 0; block < blocks.count() && !stop(); ++block) {
    sets.push_back(cliques.by_size(block));
    if (shared) sets.push_back(cliques.by_shared(block));
  }
  std::sort(sets.begin(), sets.end());
  sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
  Rows rows;
  for (const std::vector<Index>& set : sets) {
    rows.values.insert(rows.values.end(), set.begin(), set.end());
    rows.close_row();
  }
  return rows;
}

Rows rows_of(const Timeline& line) {
  Rows rows;
  for (std::size_t block = 0; block < line.begin.size(); ++block) {
    for (Index section = line.begin[block]; section < line.end[block]; ++section) rows.values.push_back(section);
    rows.close_row();
  }
  return rows;
}

// The same relation by columns.
Rows transposed(const Rows& rows, std::size_t columns) {
  Rows result{std::vector<std::uint32_t>(columns + 1, 0), std::vector<Index>(rows.values.size())};
  for (const Index value : rows.values) ++result.begin[value + 1];
  std::partial_sum(result.begin.begin(), result.begin.end(), result.begin.begin());
  std::vector<std::uint32_t> next(result.begin);
  for (std::size_t row = 0; row < rows.count(); ++row) {
    for (const Index value : rows[row]) result.values[next[value]++] = static_cast<Index>(row);
  }
  return result;
}

}  // namespace

// Sweeps over time: a section is complete whenever an end follows a begin.
Timeline make_timeline(const Blocks& blocks) {
  const Problem& problem = blocks.problem();
  std::vector<std::tuple<Time, bool, Index>> events;  // (time, begins, block); ends first: lifetimes are half-open
  for (Index block = 0; block < blocks.count(); ++block) {
    const Index tensor = blocks.parts(block)[0].tensor;
    events.emplace_back(problem.begin[tensor], true, block);
    events.emplace_back(problem.end[tensor], false, block);
  }
  std::sort(events.begin(), events.end());
  Timeline line{0, std::vector<Index>(blocks.count()), std::vector<Index>(blocks.count())};
  bool grew = false;
  for (const auto& [time, begins, block] : events) {
    if (!begins && grew) ++line.sections;
    grew = begins;
    (begins ? line.begin : line.end)[block] = static_cast<Index>(line.sections);
  }
  return line;
}

Bytes SearchGraph::load(Index section) const {
  Bytes sum = 0;
  for (const Index block : sections[section]) sum += size[block];
  return sum;
}

SearchGraph make_search_graph(const Blocks& blocks, const std::function<bool()>& stop) {
  SearchGraph graph{blocks};
  for (Index block = 0; block < blocks.count(); ++block) graph.size.push_back(blocks.size(block));
  graph.in_line = blocks.problem().streams == 1;
  if (graph.in_line) {
    const Timeline line = make_timeline(blocks);
    graph.sections_of = rows_of(line);
    graph.sections = transposed(graph.sections_of, line.sections);
  } else {
    graph.sections = heavy_cliques(blocks, stop);
    graph.sections_of = transposed(graph.sections, graph.count());
  }
  return graph;
}

}  // namespace l2l::compiler::memory

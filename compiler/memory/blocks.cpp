#include "compiler/memory/blocks.h"

#include <algorithm>

namespace l2l::compiler::memory {
namespace {

// The range that two interfering parts forbid for the difference of their blocks' offsets (see Range).
Range forbidden(const Part& here, const Part& there, Bytes alignment) {
  const auto signed_of = [](Bytes bytes) { return static_cast<std::int64_t>(bytes); };
  const auto grain = signed_of(alignment);
  const std::int64_t distance = signed_of(here.offset) - signed_of(there.offset);
  const std::int64_t low = distance - signed_of(there.size), high = distance + signed_of(here.size);
  return {low & -grain, (high + grain - 1) & -grain};  // begins are multiples of the alignment
}

// Appends the union of the open ranges `found`; the point between two that only touch stays allowed.
void append_joined(std::vector<Range>& found, std::vector<Range>& all) {
  std::sort(found.begin(), found.end(), [](const Range& a, const Range& b) { return a.low < b.low; });
  const std::size_t first = all.size();
  for (const Range& range : found) {
    if (all.size() > first && range.low < all.back().high) {
      all.back().high = std::max(all.back().high, range.high);
    } else {
      all.push_back(range);
    }
  }
}

// Offsets of tensors that are in no block: where they are pinned, else 0; groups are contiguous.
Plan plan_outside_blocks(const Problem& problem) {
  Plan plan{std::vector<Bytes>(problem.tensors.size(), 0), 0};
  for (std::size_t t = 0; t < problem.tensors.size(); ++t) plan.offsets[t] = problem.tensors[t].offset.value_or(0);
  for (const std::vector<Index>& group : problem.groups) {
    Bytes before = 0, base = 0;
    for (const Index t : group) {
      if (problem.tensors[t].offset) base = *problem.tensors[t].offset - before;
      before += problem.tensors[t].size;
    }
    for (const Index t : group) {
      plan.offsets[t] = base;
      base += problem.tensors[t].size;
    }
  }
  return plan;
}

}  // namespace

Blocks::Blocks(const Problem& problem, bool connected, const std::function<bool()>& stop) : problem_(problem) {
  std::vector<bool> in_group(problem.tensors.size(), false);
  for (const std::vector<Index>& group : problem.groups) {
    if (group.size() < 2) continue;
    for (const Index t : group) in_group[t] = true;
    if (std::any_of(group.begin(), group.end(), [&](Index t) { return problem.alive(t); })) add_block(group);
  }
  const std::vector<Index> live = live_tensors(problem);
  for (const Index t : live) {
    if (!in_group[t]) add_block({&t, 1});
  }
  if (!connected) return;
  std::optional<InterferenceGraph> graph = interference_graph(problem, live, stop);
  if (!graph) return;
  if (grouped_) {
    connect_parts(live, *graph);
    return;
  }
  starts_ = std::move(graph->starts);
  neighbours_ = std::move(graph->others);
}

void Blocks::add_block(std::span<const Index> tensors) {
  Block block{0, parts_.size(), tensors.size(), {}};
  for (const Index t : tensors) {
    const Tensor& tensor = problem_.tensors[t];
    if (tensor.offset) block.pinned = *tensor.offset - block.size;
    parts_.push_back({t, block.size, tensor.size});
    block.size += tensor.size;
  }
  block.size = align_up(block.size, problem_.alignment);
  blocks_.push_back(block);
  grouped_ = grouped_ || tensors.size() > 1;
  unconstrained_ = unconstrained_ && tensors.size() == 1 && !block.pinned;
}

void Blocks::connect_parts(const std::vector<Index>& live, const InterferenceGraph& graph) {
  struct Place {
    Index block = 0, part = 0;
  };
  std::vector<Place> place_of(problem_.tensors.size());
  for (Index b = 0; b < blocks_.size(); ++b) {
    for (std::size_t k = 0; k < blocks_[b].part_count; ++k) {
      place_of[parts_[blocks_[b].parts + k].tensor] = {b, static_cast<Index>(blocks_[b].parts + k)};
    }
  }
  std::vector<std::size_t> row_of(problem_.tensors.size());
  for (std::size_t i = 0; i < live.size(); ++i) row_of[live[i]] = i;

  struct Pair {
    Index block, here, there;  // the other block, and the two parts
  };
  std::vector<Pair> pairs;
  std::vector<Range> found;
  starts_.push_back(0);
  range_starts_.push_back(0);
  for (Index b = 0; b < blocks_.size(); ++b) {
    pairs.clear();
    for (std::size_t here = blocks_[b].parts; here < blocks_[b].parts + blocks_[b].part_count; ++here) {
      if (!problem_.alive(parts_[here].tensor)) continue;
      const std::size_t row = row_of[parts_[here].tensor];
      for (std::size_t k = graph.starts[row]; k < graph.starts[row + 1]; ++k) {
        const Place other = place_of[live[graph.others[k]]];
        if (other.block != b) pairs.push_back({other.block, static_cast<Index>(here), other.part});
      }
    }
    std::sort(pairs.begin(), pairs.end(), [](const Pair& x, const Pair& y) { return x.block < y.block; });
    for (std::size_t i = 0; i < pairs.size();) {
      const Index other = pairs[i].block;
      found.clear();
      for (; i < pairs.size() && pairs[i].block == other; ++i) {
        found.push_back(forbidden(parts_[pairs[i].here], parts_[pairs[i].there], problem_.alignment));
      }
      append_joined(found, ranges_);
      neighbours_.push_back(other);
      range_starts_.push_back(ranges_.size());
    }
    starts_.push_back(neighbours_.size());
  }
}

Plan Blocks::plan(std::span<const Bytes> offsets) const {
  Plan plan = plan_outside_blocks(problem_);
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    for (const Part& part : parts(static_cast<Index>(b))) plan.offsets[part.tensor] = offsets[b] + part.offset;
  }
  for (std::size_t t = 0; t < plan.offsets.size(); ++t) {
    plan.footprint = std::max(plan.footprint, plan.offsets[t] + problem_.tensors[t].size);
  }
  return plan;
}

}  // namespace l2l::compiler::memory

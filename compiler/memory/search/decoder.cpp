#include "compiler/memory/search/decoder.h"

#include <algorithm>

namespace l2l::compiler::memory {
namespace {

constexpr std::size_t kStepsPerQuestion = 64;
constexpr std::uint64_t kLineSteps = 64;  // that a block takes in a LineFit

struct Waiting {
  Bytes place;
  std::uint32_t rank;
  Index block;
};

bool later(const Waiting& a, const Waiting& b) { return a.place != b.place ? a.place > b.place : a.rank > b.rank; }

// The plan of a LineFit, by the interference graph, and so on any number of streams: keeps for each unplaced block the
// lowest offset above its placed neighbours.
std::optional<Placement> level_fit(const Blocks& blocks, std::span<const Index> order, Bytes highest,
                                   const std::function<bool()>& stop) {
  Placement found{std::vector<Bytes>(blocks.count(), 0), 0};
  std::vector<char> placed(blocks.count(), 0);
  std::vector<Waiting> heap;
  heap.reserve(order.size());
  for (std::uint32_t rank = 0; rank < order.size(); ++rank) heap.push_back({0, rank, order[rank]});
  for (std::size_t step = 0; !heap.empty(); ++step) {
    std::pop_heap(heap.begin(), heap.end(), later);
    Waiting& next = heap.back();
    if (found.offsets[next.block] > next.place) {  // has risen since
      next.place = found.offsets[next.block];
      std::push_heap(heap.begin(), heap.end(), later);
      continue;
    }
    const Index block = next.block;
    heap.pop_back();
    placed[block] = 1;
    const Bytes end = found.offsets[block] + blocks.size(block);
    found.footprint = std::max(found.footprint, end);
    if (end > highest || (step % kStepsPerQuestion == 0 && stop())) return std::nullopt;
    for (const Index other : blocks.neighbours(block)) {
      if (!placed[other]) found.offsets[other] = std::max(found.offsets[other], end);
    }
  }
  return found;
}

}  // namespace

Decoder::Decoder(const Blocks& blocks) : blocks_(blocks) {
  const std::uint64_t of_line = kLineSteps * blocks.count();
  const bool in_line = blocks.problem().streams == 1 && blocks.unconstrained();
  if (in_line && (!blocks.connected() || blocks.steps() > of_line)) line_.emplace(blocks);
  steps_ = line_ ? of_line : blocks.steps();
}

std::optional<Placement> Decoder::decode(std::span<const Index> order, Bytes highest,
                                         const std::function<bool()>& stop) const {
  if (line_) return line_->place(order, highest, stop);
  return blocks_.unconstrained() ? level_fit(blocks_, order, highest, stop)
                                 : place_in_gaps(blocks_, order, Fit::first, highest, stop);
}

}  // namespace l2l::compiler::memory

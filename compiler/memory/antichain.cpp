// By Dilworth's theorem (1950, weighted) the heaviest antichain weighs as much as the lightest cover by chains. That is
// the sum of all weights less a maximum flow, in which a tensor hands its bytes on to tensors that begin after it is
// done. The antichain is read off the minimum cut.
#include <algorithm>
#include <bit>

#include "compiler/memory/antichain.h"
#include "compiler/memory/clock_table.h"
#include "compiler/memory/flow.h"

namespace l2l::compiler::memory {
namespace {

// The relation "i is done before j begins" as rows of bits, over positions in a list sorted by begin, which is a
// topological order: of two such tensors, no entry of begin is larger for i, and one is smaller, as i is alive.
class Successors {
 public:
  Successors(const Problem& problem, const std::vector<Index>& tensors, const std::function<bool()>& stop)
      : count_(tensors.size()), words_((count_ + ClockTable::kWidth - 1) / 64 + 1), rows_(count_ * words_, 0) {
    constexpr std::size_t kRowsPerQuestion = 16;
    const ClockTable table(problem, tensors);
    ClockTable::Mask mask;
    for (std::size_t i = 0; i < count_; ++i) {
      if (stop && i % kRowsPerQuestion == 0 && stop()) {
        whole_ = false;
        return;
      }
      for (std::size_t chunk = i / ClockTable::kWidth; chunk * ClockTable::kWidth < count_; ++chunk) {
        table.after(i, chunk, mask);
        const std::size_t base = chunk * ClockTable::kWidth, width = std::min(ClockTable::kWidth, count_ - base);
        for (std::size_t k = 0; k < width; ++k) {
          row(i)[(base + k) / 64] |= static_cast<std::uint64_t>(mask[k] & 1) << (base + k) % 64;
        }
      }
    }
  }

  // Whether stop() was never true.
  bool whole() const { return whole_; }

  // Calls visit(j) for the j that cover i: those after i with none between (the transitive reduction).
  template <typename Visit>
  void visit_covers(std::size_t i, Visit visit) {
    std::vector<std::uint64_t>& left = left_;
    left.assign(row(i), row(i) + words_);
    for (std::size_t w = 0; w < words_; ++w) {
      while (left[w] != 0) {
        const std::size_t j = w * 64 + static_cast<std::size_t>(std::countr_zero(left[w]));
        visit(j);
        left[w] &= left[w] - 1;
        const std::uint64_t* const beyond = row(j);
        for (std::size_t k = w; k < words_; ++k) left[k] &= ~beyond[k];
      }
    }
  }

 private:
  std::uint64_t* row(std::size_t i) { return rows_.data() + i * words_; }

  std::size_t count_, words_;
  std::vector<std::uint64_t> rows_, left_;
  bool whole_ = true;
};

}  // namespace

std::optional<std::vector<Index>> heaviest_antichain(const Problem& problem, const std::vector<Index>& tensors,
                                                     const std::vector<Bytes>& weights,
                                                     const std::function<bool()>& stop) {
  const auto count = static_cast<Flow::Node>(tensors.size());
  const Flow::Node source = 2 * count, sink = source + 1;
  const auto gives = [](std::size_t i) { return static_cast<Flow::Node>(2 * i); };
  const auto takes = [](std::size_t i) { return static_cast<Flow::Node>(2 * i + 1); };
  constexpr Flow::Amount kInfinite = ~Flow::Amount{0} / 2;
  Flow flow(2 * tensors.size() + 2);
  Successors successors(problem, tensors, stop);
  if (!successors.whole()) return std::nullopt;
  std::size_t covers = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    flow.add_edge(source, gives(i), weights[tensors[i]]);
    flow.add_edge(takes(i), sink, weights[tensors[i]]);
    flow.add_edge(takes(i), gives(i), kInfinite);  // on to what follows that
    successors.visit_covers(i, [&](std::size_t j) {
      flow.add_edge(gives(i), takes(j), kInfinite);
      ++covers;
    });
    if (covers > kMostCovers || (stop && stop())) return std::nullopt;
  }
  bool stopped = false;
  flow.run(source, sink, [&](std::uint64_t steps) { return stopped = steps > kMostFlowSteps || (stop && stop()); });
  if (stopped) return std::nullopt;
  std::vector<Index> antichain;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (flow.reaches(gives(i)) && !flow.reaches(takes(i))) antichain.push_back(tensors[i]);
  }
  std::sort(antichain.begin(), antichain.end());
  return antichain;
}

}  // namespace l2l::compiler::memory

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/checked.h"
#include "device/planner/planner.h"

namespace l2l::device::planner {
namespace {

bool alive(const Tensor& tensor) { return tensor.lower < tensor.upper && tensor.size > 0; }
bool meet(const Tensor& a, const Tensor& b) { return a.lower < b.upper && b.lower < a.upper; }

// Places tensors one by one into the gaps that those before them left.
class BestFit {
 public:
  explicit BestFit(const Problem& problem) : problem_(problem), offsets_(problem.tensors.size(), 0) {}

  void place(std::size_t index) {
    offsets_[index] = lowest_tight_gap(problem_.tensors[index]);
    const auto higher = [&](std::size_t a, std::size_t b) { return offsets_[a] < offsets_[b]; };
    by_offset_.insert(std::upper_bound(by_offset_.begin(), by_offset_.end(), index, higher), index);
  }

  Plan take() {
    Plan plan{std::move(offsets_), 0};
    for (std::size_t i = 0; i < plan.offsets.size(); ++i) {
      plan.footprint = std::max(plan.footprint, end_of(plan.offsets[i], problem_.tensors[i]));
    }
    return plan;
  }

 private:
  static Bytes end_of(Bytes offset, const Tensor& tensor) {
    return checked_add(offset, tensor.size, "offset of '" + tensor.name + "'");
  }

  // The smallest gap among the tensors alive at the same time that holds `tensor`; the lowest of equals; above them
  // all when there is none.
  Bytes lowest_tight_gap(const Tensor& tensor) const {
    Bytes top = 0;  // aligned end of what was walked so far
    Bytes best = 0, tightest = ~Bytes{0};
    for (const std::size_t i : by_offset_) {
      const Tensor& other = problem_.tensors[i];
      if (!meet(tensor, other)) continue;
      const Bytes gap = offsets_[i] > top ? offsets_[i] - top : 0;
      if (gap >= tensor.size && gap < tightest) {
        best = top;
        tightest = gap;
      }
      const Bytes end = end_of(offsets_[i], other);
      checked_add(end, problem_.alignment - 1, "offset of '" + tensor.name + "'");
      top = std::max(top, align_up(end, problem_.alignment));
    }
    return tightest == ~Bytes{0} ? top : best;
  }

  const Problem& problem_;
  std::vector<Bytes> offsets_;
  std::vector<std::size_t> by_offset_;  // tensors placed so far
};

// Large first, of equals the longer-lived first, then by position.
std::vector<std::size_t> order_of(const std::vector<Tensor>& tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto length = [](const Tensor& t) {
    return static_cast<std::uint64_t>(t.upper) - static_cast<std::uint64_t>(t.lower);
  };
  std::erase_if(order, [&](std::size_t i) { return !alive(tensors[i]); });
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (tensors[a].size != tensors[b].size) return tensors[a].size > tensors[b].size;
    return length(tensors[a]) > length(tensors[b]);
  });
  return order;
}

}  // namespace

Plan plan(const Problem& problem) {
  if (!std::has_single_bit(problem.alignment)) {
    throw BadInput("planner: alignment " + std::to_string(problem.alignment) + " is not a power of two");
  }
  BestFit fit(problem);
  for (const std::size_t index : order_of(problem.tensors)) fit.place(index);
  return fit.take();
}

}  // namespace l2l::device::planner

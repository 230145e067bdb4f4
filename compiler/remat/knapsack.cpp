#include "compiler/remat/knapsack.h"

#include <algorithm>
#include <numeric>

#include "core/checked.h"

namespace l2l::compiler::remat {
namespace {

__extension__ using Wide = unsigned __int128;

// Items by value per byte, descending; those of no bytes first.
std::vector<std::uint32_t> by_density(std::span<const KnapsackItem> items) {
  std::vector<std::uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return Wide{items[a].value} * items[b].bytes > Wide{items[b].value} * items[a].bytes;
  });
  std::stable_partition(order.begin(), order.end(), [&](std::uint32_t i) { return items[i].bytes == 0; });
  return order;
}

}  // namespace

// Merges two lists in order of bytes, the points without and with the item, and drops dominated points (Nemhauser and
// Ullmann 1969).
void ParetoFront::add(std::uint32_t index, const KnapsackItem& item) {
  if (item.value == 0) return;
  std::vector<Point> merged;
  merged.reserve(2 * points_.size());
  const auto append = [&](const Point& point) {
    if (!merged.empty() && merged.back().value >= point.value) return false;
    if (!merged.empty() && merged.back().bytes == point.bytes) merged.pop_back();
    merged.push_back(point);
    return true;
  };
  std::size_t old = 0;
  for (const Point& from : points_) {
    const Bytes bytes = from.bytes + item.bytes;
    for (; old < points_.size() && points_[old].bytes <= bytes; ++old) append(points_[old]);
    const auto trail = static_cast<std::uint32_t>(trails_.size());
    if (append({bytes, from.value + item.value, trail})) trails_.push_back({index, from.trail});
  }
  for (; old < points_.size(); ++old) append(points_[old]);
  points_ = std::move(merged);
}

// Drops points that are worth little more than the one before. The last point stays.
void ParetoFront::thin(std::size_t limit) {
  if (points_.size() <= limit) return;
  const Nanoseconds width = (points_.back().value - points_.front().value) / (limit - 1) + 1;
  Nanoseconds lost = 0;
  std::vector<Point> kept{points_.front()};
  for (std::size_t i = 1; i < points_.size(); ++i) {
    const Nanoseconds more = points_[i].value - kept.back().value;
    if (more < width && i + 1 < points_.size()) {
      lost = std::max(lost, more);
    } else {
      kept.push_back(points_[i]);
    }
  }
  points_ = std::move(kept);
  short_by_ += lost;
}

ParetoFront::ParetoFront(std::span<const KnapsackItem> items, std::size_t limit) {
  Bytes bytes = 0;
  Nanoseconds value = 0;
  for (const KnapsackItem& item : items) {
    bytes = checked_add(bytes, item.bytes, "bytes of all items");
    value = checked_add(value, item.value, "value of all items");
  }
  for (const std::uint32_t i : by_density(items)) {
    add(i, items[i]);
    thin(std::max<std::size_t>(limit, 2));
  }
}

Knapsack ParetoFront::best(Bytes capacity) const {
  const auto beyond = std::upper_bound(points_.begin(), points_.end(), capacity,
                                       [](Bytes bytes, const Point& point) { return bytes < point.bytes; });
  const Point& point = *(beyond - 1);
  Knapsack best{{}, point.bytes, point.value, short_by_};
  for (std::uint32_t t = point.trail; t != 0; t = trails_[t].before) best.items.push_back(trails_[t].item);
  std::sort(best.items.begin(), best.items.end());
  return best;
}

}  // namespace l2l::compiler::remat

#include "compiler/remat/knapsack.h"

#include <algorithm>
#include <numeric>

#include "core/checked.h"

namespace l2l::compiler::remat {
namespace {

__extension__ using Wide = unsigned __int128;

// By value per byte, the greatest first; what weighs nothing before all.
std::vector<std::uint32_t> by_density(std::span<const KnapsackItem> items) {
  std::vector<std::uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return Wide{items[a].value} * items[b].bytes > Wide{items[b].value} * items[a].bytes;
  });
  std::stable_partition(order.begin(), order.end(), [&](std::uint32_t i) { return items[i].bytes == 0; });
  return order;
}

void check_values(std::span<const KnapsackItem> items) {
  Nanoseconds all = 0;
  for (const KnapsackItem& item : items) all = checked_add(all, item.value, "value of all items");
}

struct Bounds {
  Nanoseconds least, most;
};

// What the rest of the capacity may add: the items in order until one does not fit, without and with a part of that.
Bounds bounds_of(std::span<const KnapsackItem> items, std::span<const std::uint32_t> order, Bytes rest) {
  Nanoseconds value = 0;
  for (const std::uint32_t i : order) {
    if (items[i].bytes > rest) {
      return {value, value + static_cast<Nanoseconds>(Wide{items[i].value} * rest / items[i].bytes)};
    }
    rest -= items[i].bytes;
    value += items[i].value;
  }
  return {value, value};
}

}  // namespace

// Two lists in order of bytes, the points and the points with the item, become one; of each, what is worth no more than
// something lighter goes.
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
    if (from.bytes > capacity_ || item.bytes > capacity_ - from.bytes) break;
    const Bytes bytes = from.bytes + item.bytes;
    for (; old < points_.size() && points_[old].bytes <= bytes; ++old) append(points_[old]);
    const auto trail = static_cast<std::uint32_t>(trails_.size());
    if (append({bytes, from.value + item.value, trail})) trails_.push_back({index, from.trail});
  }
  for (; old < points_.size(); ++old) append(points_[old]);
  points_ = std::move(merged);
}

// Lighter points stand for those after them that are worth little more. The last one stays.
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
  check_values(items);
  Bytes all = 0;
  for (const KnapsackItem& item : items) all = checked_add(all, item.bytes, "bytes of all items");
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

Knapsack knapsack(std::span<const KnapsackItem> items, Bytes capacity, std::size_t limit) {
  check_values(items);
  std::vector<std::uint32_t> order = by_density(items);
  std::erase_if(order, [&](std::uint32_t i) { return items[i].bytes > capacity; });
  ParetoFront front(capacity);
  Nanoseconds reached = 0;  // some choice is worth so much
  for (std::size_t k = 0; k < order.size(); ++k) {
    front.add(order[k], items[order[k]]);
    const auto rest = std::span(order).subspan(k + 1);
    std::vector<Nanoseconds> most;
    for (const ParetoFront::Point& point : front.points_) {
      const Bounds more = bounds_of(items, rest, capacity - point.bytes);
      reached = std::max(reached, point.value + more.least);
      most.push_back(point.value + more.most);
    }
    std::erase_if(front.points_,
                  [&](const ParetoFront::Point& point) { return most[&point - front.points_.data()] < reached; });
    const Nanoseconds before = front.short_by_;
    front.thin(std::max<std::size_t>(limit, 2));
    reached -= std::min(reached, front.short_by_ - before);  // that choice may have gone
  }
  Knapsack best = front.best(capacity);
  best.short_by = std::min(best.short_by, bounds_of(items, order, capacity).most - best.value);
  return best;
}

}  // namespace l2l::compiler::remat

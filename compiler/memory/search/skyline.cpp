#include "compiler/memory/search/skyline.h"

#include <algorithm>

namespace l2l::compiler::memory {

Skyline::Skyline(const SearchGraph& graph, Bytes capacity)
    : graph_(graph),
      capacity_(capacity),
      lowest_(graph.count(), 0),
      support_(graph.count(), 0),
      placed_(graph.count(), 0),
      floor_(graph.sections.count(), 0),
      second_(graph.sections.count(), 0),
      at_floor_(graph.sections.count(), 0),
      rest_(graph.sections.count(), 0),
      members_(graph.sections.values),
      slots_(graph.sections_of.values.size()),
      owners_(members_.size()),
      crossing_(graph.sections.count(), 0),
      queued_(graph.sections.count(), 0),
      weights_(graph.sections.count(), 1.0) {
  for (Index item = 0; item < graph.count(); ++item) {
    lowest_[item] = graph.blocks.pinned(item).value_or(0);
    // An item larger than the capacity makes its section fail at once, so no wrap matters here.
    latest_.push_back(graph.blocks.pinned(item) ? *graph.blocks.pinned(item)
                                                : capacity - std::min(capacity, graph.size[item]));
  }
  std::vector<std::uint32_t> next(graph.sections_of.begin.begin(), graph.sections_of.begin.end() - 1);
  for (Index section = 0; section < graph.sections.count(); ++section) {
    const std::uint32_t begin = graph.sections.begin[section], end = graph.sections.begin[section + 1];
    left_.push_back(end - begin);
    for (std::uint32_t slot = begin; slot < end; ++slot) {
      const Index item = members_[slot];
      rest_[section] += graph.size[item];
      owners_[slot] = next[item];
      slots_[next[item]++] = slot;
    }
  }
  if (!graph.in_line) return;
  for (Index item = 0; item < graph.count(); ++item) {
    for (const Index section : graph.sections_of[item].subspan(1)) ++crossing_[section - 1];
  }
}

bool Skyline::start() {
  for (Index item = 0; item < graph_.count(); ++item) {
    if (graph_.size[item] > capacity_ || lowest_[item] > capacity_ - graph_.size[item]) return false;
  }
  for (Index section = 0; section < graph_.sections.count(); ++section) enqueue(section);
  return propagate();
}

bool Skyline::place(Index item) {
  remove(item);
  steps_ += graph_.blocks.neighbours(item).size();
  const Bytes end = lowest_[item] + graph_.size[item];
  for (const Index other : graph_.blocks.neighbours(item)) {
    if (placed_[other]) continue;
    if (support_[other] < end) set(support_[other], end);
    raise(other, end);
  }
  return propagate();
}

bool Skyline::exclude(std::span<const Index> items) {
  for (const Index item : items) {
    Bytes end = kNever;
    steps_ += graph_.blocks.neighbours(item).size();
    for (const Index other : graph_.blocks.neighbours(item)) {
      if (!placed_[other]) end = std::min(end, lowest_[other] + graph_.size[other]);
    }
    if (end == kNever) return false;
    raise(item, end);
  }
  return propagate();
}

bool Skyline::is_lowest_of_neighbours(Index item) const {
  const Bytes lowest = lowest_[item];
  for (const Index other : graph_.blocks.neighbours(item)) {
    if (!placed_[other] && lowest_[other] < lowest) return false;
  }
  return true;
}

void Skyline::undo(Mark mark) {
  while (trail_.size() > mark.changes) {
    *trail_.back().where = trail_.back().before;
    trail_.pop_back();
  }
  while (placed_order_.size() > mark.placed) {
    restore(placed_order_.back());
    placed_order_.pop_back();
  }
  for (const Index section : queue_) queued_[section] = 0;
  queue_.clear();
  failed_ = false;
}

void Skyline::set(Bytes& where, Bytes value) {
  trail_.push_back({&where, where});
  where = value;
}

void Skyline::enqueue(Index section) {
  if (queued_[section]) return;
  queued_[section] = 1;
  queue_.push_back(section);
}

void Skyline::raise(Index item, Bytes value) {
  if (value <= lowest_[item]) return;
  const std::span<const Index> sections = graph_.sections_of[item];
  if (value > latest_[item]) {
    failed_ = true;
    for (const Index section : sections) weights_[section] += 1.0 / static_cast<double>(sections.size());
    return;
  }
  set(lowest_[item], value);
  for (const Index section : sections) enqueue(section);
}

bool Skyline::propagate() {
  while (!failed_ && !queue_.empty()) {
    const Index section = queue_.back();
    queue_.pop_back();
    queued_[section] = 0;
    if (!update(section)) {
      weights_[section] += 1;
      failed_ = true;
    }
  }
  return !failed_;
}

bool Skyline::update(Index section) {
  const std::span<const Index> items = left(section);
  steps_ += items.size();
  const Bytes room = capacity_ - rest_[section];  // the lowest of them must begin at or below it
  if (rest_[section] > capacity_) return false;
  Bytes first = kNever, second = kNever, count = 0, first_end = kNever, beyond = kNever;
  for (const Index item : items) {
    const Bytes low = lowest_[item];
    if (low < first) {
      second = first;
      first = low;
      count = 1;
    } else if (low == first) {
      ++count;
    } else if (low < second) {
      second = low;
    }
    if (low <= room) {
      first_end = std::min(first_end, low + graph_.size[item]);
    } else {
      beyond = std::min(beyond, low);
    }
  }
  if (first != floor_[section]) set(floor_[section], first);
  if (second != second_[section]) set(second_[section], second);
  if (count != at_floor_[section]) set(at_floor_[section], count);
  if (items.empty()) return true;
  if (first > room) return false;
  // Items that cannot be the lowest lie above one that can.
  if (beyond < first_end) {
    for (const Index item : items) {
      if (lowest_[item] > room) raise(item, first_end);
    }
  }
  return true;
}

void Skyline::remove(Index item) {
  placed_[item] = 1;
  placed_order_.push_back(item);
  const std::uint32_t begin = graph_.sections_of.begin[item], end = graph_.sections_of.begin[item + 1];
  for (std::uint32_t k = begin; k < end; ++k) {
    const Index section = graph_.sections_of.values[k];
    const std::uint32_t slot = slots_[k], last = graph_.sections.begin[section] + --left_[section];
    std::swap(members_[slot], members_[last]);
    std::swap(owners_[slot], owners_[last]);
    slots_[owners_[slot]] = slot;
    slots_[owners_[last]] = last;
    rest_[section] -= graph_.size[item];
    if (graph_.in_line && k + 1 < end) --crossing_[section];
    enqueue(section);
  }
}

void Skyline::restore(Index item) {
  placed_[item] = 0;
  const std::uint32_t begin = graph_.sections_of.begin[item], end = graph_.sections_of.begin[item + 1];
  for (std::uint32_t k = begin; k < end; ++k) {
    const Index section = graph_.sections_of.values[k];
    ++left_[section];
    rest_[section] += graph_.size[item];
    if (graph_.in_line && k + 1 < end) ++crossing_[section];
  }
}

}  // namespace l2l::compiler::memory

// What a rank exchanges of a group with the others: the pieces, and what follows when they are there.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/activity.h"
#include "eps/store_implementation.h"
#include "l2l/errors.h"

namespace l2l::eps {

ElementRange ParameterStore::Implementation::shard(GroupIndex group, int rank) const {
  return gradients_of_rank(groups[static_cast<std::size_t>(group)].memory.cuts(), rank);
}

std::vector<std::vector<ParameterStore::Implementation::Use>> ParameterStore::Implementation::uses_of_groups() const {
  std::vector<std::vector<Use>> uses_by_group(layout.groups.size());
  for (LayerIndex layer = 0; static_cast<std::size_t>(layer) < layout.layers.size(); ++layer) {
    const std::vector<LayerPart>& parts = layer_at(layer).parts;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      uses_by_group[static_cast<std::size_t>(parts[i].group)].push_back(
          {gradients_of(layout, parts[i]), hand_over.contribution(layer, i, /*device=*/0, /*rank=*/0)});
    }
  }
  return uses_by_group;
}

// Uses before this one have `first` contributions where devices push; what ranks send of them takes as many places for
// each rank as it sends.
std::size_t ParameterStore::Implementation::sent_place(const Use& use, int which, int rank) const {
  const int sent = options.sent_gradients();
  return use.first * static_cast<std::size_t>(sent) / static_cast<std::size_t>(options.pushed_gradients()) +
         static_cast<std::size_t>(rank * sent + which);
}

// Each rank sends what its devices pushed, or their sums, and the rank that has the shard adds: as a tree over devices,
// whichever rank they are of.
void ParameterStore::Implementation::add_gradients(RankExchange& exchange) {
  const GroupIndex index = exchange.what.group;
  GroupData& group = groups[static_cast<std::size_t>(index)];
  const Bytes size = size_of(options.sent_type());
  const auto bytes_of = [&](std::int64_t elements) { return static_cast<Bytes>(elements) * size; };
  const ElementRange own = own_shard(index);
  std::byte* at = exchanged.received.data(group.received_slot);
  if (options.sums_devices()) {  // this rank's sums are there
    for (const Use& use : uses[static_cast<std::size_t>(index)]) at += bytes_of(use.elements.common(own).count());
  }
  for (int peer = 0; peer < options.rank.count; ++peer) {
    if (peer == options.rank.index) continue;
    const std::byte* sums = group.sum_slot >= 0 ? exchanged.sums.data(group.sum_slot) : nullptr;
    for (const Use& use : uses[static_cast<std::size_t>(index)]) {
      const ElementRange taken = use.elements.common(own), sent = use.elements.common(shard(index, peer));
      for (int which = 0; which < options.sent_gradients(); ++which) {
        if (sent.count() > 0) {
          const std::byte* mine =
              sums != nullptr ? sums : group.gradients[sent_place(use, which, options.rank.index)].data;
          mine += bytes_of(sent.begin - use.elements.begin);
          exchange.sent.push_back({peer, {mine, bytes_of(sent.count())}});
        }
        group.gradients[sent_place(use, which, peer)] = {at, taken.begin, taken.end};
        if (taken.count() == 0) continue;
        exchange.received.push_back({peer, {at, bytes_of(taken.count())}});
        at += exchange.received.back().bytes.size();
      }
      if (sums != nullptr) sums += bytes_of(use.elements.count());
    }
  }
}

void ParameterStore::Implementation::add_squares(RankExchange& exchange) {
  GroupData& group = groups[static_cast<std::size_t>(exchange.what.group)];
  const auto sums = [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    const auto first = static_cast<std::size_t>(group.memory.cuts()[r].block);
    const auto end = static_cast<std::size_t>(group.memory.cuts()[r + 1].block);
    return std::as_writable_bytes(std::span(group.block_sums).subspan(first, end - first));
  };
  add_all_gather(exchange, sums);
}

void ParameterStore::Implementation::add_wire(RankExchange& exchange) {
  GroupMemory& memory = groups[static_cast<std::size_t>(exchange.what.group)].memory;
  const auto wire = [&](int rank) {
    const ElementRange own = wire_of_rank(memory.cuts(), rank);
    return memory.wire(own.begin, own.end);
  };
  add_all_gather(exchange, wire);
}

template <typename OfRank>
void ParameterStore::Implementation::add_all_gather(RankExchange& exchange, const OfRank& of_rank) {
  const std::span<const std::byte> mine = of_rank(options.rank.index);
  for (int peer = 0; peer < options.rank.count; ++peer) {
    if (peer == options.rank.index) continue;
    if (!mine.empty()) exchange.sent.push_back({peer, mine});
    if (const std::span<std::byte> its = of_rank(peer); !its.empty()) exchange.received.push_back({peer, its});
  }
}

std::optional<RankExchange> ParameterStore::next_exchange(std::chrono::nanoseconds at_most) {
  Implementation& self = *implementation_;
  const Clock::time_point end = Clock::now() + at_most;
  auto guard = self.lock();
  while (true) {
    if (self.failure.failed()) {
      guard.unlock();
      self.failure.rethrow();
    }
    if (self.exchanges_stopped) return std::nullopt;
    if (const std::optional<GroupExchange> next = self.hand_over.start_exchange(self.exchanged.received.has_room())) {
      RankExchange exchange{*next, self.first_layer(next->group), {}, {}};
      Implementation::GroupData& group = self.groups[static_cast<std::size_t>(next->group)];
      switch (next->kind) {
        case ExchangeKind::gradients:
          if (group.received_slot < 0) group.received_slot = self.exchanged.received.take(next->group).value();
          self.add_gradients(exchange);
          break;
        case ExchangeKind::squares:
          self.add_squares(exchange);
          break;
        case ExchangeKind::wire:
          self.add_wire(exchange);
          break;
        case ExchangeKind::visit:  // of no group
          break;
      }
      return exchange;
    }
    if (std::optional<RankExchange> visit = self.start_visit()) return visit;
    const ActivitySpan span(Doing::rests, "the wait for something to exchange");
    if (self.changed.wait_until(guard, end) == std::cv_status::timeout) return std::nullopt;
  }
}

// Options of a store that has the whole of a group.
static StoreOptions whole(StoreOptions options) {
  options.rank = {};
  options.verify = false;
  return options;
}

std::vector<int> ParameterStore::writers(const ModelLayout& layout, const StoreOptions& options) {
  std::vector<Bytes> sizes;
  for (const GroupSpec& group : layout.groups) sizes.push_back(GroupMemory::bytes(group, whole(options)));
  return group_writers(sizes, options.rank.count);
}

// Rank 0 also brings together what is hashed or read (eps/state_gather.h).
Bytes ParameterStore::Implementation::gathered_bytes(const ModelLayout& layout, const StoreOptions& options) {
  if (options.rank.count == 1) return 0;
  const std::vector<int> writers = ParameterStore::writers(layout, options);
  Bytes most = 0;
  for (std::size_t i = 0; i < layout.groups.size(); ++i) {
    if (options.rank.index > 0 && writers[i] != options.rank.index) continue;
    most = std::max(most, GroupMemory::bytes(layout.groups[i], whole(options)));
  }
  return most;
}

std::span<const int> ParameterStore::writers() const { return implementation_->writers; }

RankExchange ParameterStore::gather_state(GroupIndex group, int root) {
  Implementation& self = *implementation_;
  if (root != 0 && root != writer(group)) throw Error("a group's state is gathered where there is no room for it");
  GroupMemory& own = self.groups[static_cast<std::size_t>(group)].memory;
  const auto shard = [&](GroupMemory& memory, int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return memory.state(own.cuts()[r], own.cuts()[r + 1], own.shards_wire());
  };
  RankExchange exchange{{}, -1, {}, {}};
  const int rank = self.options.rank.index;
  if (rank != root) {
    for (const std::span<std::byte> piece : shard(own, rank)) {
      if (!piece.empty()) exchange.sent.push_back({root, piece});
    }
    return exchange;
  }
  // The same place for every group.
  struct Room final : MemorySource {
    explicit Room(std::byte* data) : data(data) {}
    std::byte* allocate(Bytes size, std::string_view) override { return std::fill_n(data, size, std::byte{0}) - size; }
    std::byte* const data;
  } room(self.gather_room);
  self.gathered.emplace(self.layout.groups[static_cast<std::size_t>(group)], whole(self.options), room);
  self.gathered_group = group;
  if (!own.shards_wire()) std::ranges::copy(own.wire(), self.gathered->wire().begin());
  const std::vector<std::span<std::byte>> from = shard(own, rank), to = shard(*self.gathered, rank);
  for (std::size_t i = 0; i < from.size(); ++i) std::ranges::copy(from[i], to[i].begin());
  for (int peer = 0; peer < self.options.rank.count; ++peer) {
    if (peer == rank) continue;
    for (const std::span<std::byte> piece : shard(*self.gathered, peer)) {
      if (!piece.empty()) exchange.received.push_back({peer, piece});
    }
  }
  return exchange;
}

void ParameterStore::forget_gathered() { implementation_->gathered.reset(); }

void ParameterStore::finish_exchange(const GroupExchange& exchange) {
  Implementation& self = *implementation_;
  auto guard = self.lock();
  if (exchange.kind == ExchangeKind::visit) {
    self.visits[exchange.visit].there = true;
    return self.unlock_and_notify(std::move(guard));
  }
  Implementation::GroupData& group = self.groups[static_cast<std::size_t>(exchange.group)];
  bool finite = true;
  if (exchange.kind == ExchangeKind::gradients && group.sum_slot >= 0) {
    self.exchanged.sums.release(std::exchange(group.sum_slot, -1));
  }
  if (exchange.kind == ExchangeKind::squares) {
    double sum = 0;
    for (const double of_block : group.block_sums) sum += of_block;
    finite = std::isfinite(sum);
    self.take_check(exchange.group, sum);
  }
  self.hand_over.finish_exchange(exchange, finite);
  self.unlock_and_notify(std::move(guard));
}

void ParameterStore::stop_exchanges() {
  auto guard = implementation_->lock();
  implementation_->exchanges_stopped = true;
  implementation_->unlock_and_notify(std::move(guard));
}

}  // namespace l2l::eps

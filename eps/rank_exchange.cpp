// What a rank exchanges of a group with the others: the pieces, and what follows when they are there.
#include <algorithm>
#include <cmath>

#include "core/activity.h"
#include "eps/store_implementation.h"
#include "l2l/errors.h"

namespace l2l::eps {
namespace {

struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};

// What is in both; begin = end where nothing is.
Range common(Range a, Range b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// Elements of the group's gradients.
Range shard(const GroupMemory& memory, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return {memory.cuts()[r].gradient, memory.cuts()[r + 1].gradient};
}

}  // namespace

std::vector<std::vector<ParameterStore::Implementation::Use>> ParameterStore::Implementation::uses_of_groups() const {
  std::vector<std::vector<Use>> uses(layout.groups.size());
  for (std::size_t layer = 0; layer < layout.layers.size(); ++layer) {
    const std::vector<LayerPart>& parts = layout.layers[layer].parts;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      uses[static_cast<std::size_t>(parts[i].group)].push_back({static_cast<LayerIndex>(layer), i});
    }
  }
  return uses;
}

// Each rank sends all its contributions as they are, and the rank that has the shard adds: as a tree over devices,
// whichever rank they are of.
void ParameterStore::Implementation::add_gradients(RankExchange& exchange) {
  GroupData& group = groups[static_cast<std::size_t>(exchange.what.group)];
  const Bytes size = size_of(options.gradients);
  std::byte* at = received.data(group.received_slot);
  const Range own = shard(group.memory, options.rank.index);
  for (int peer = 0; peer < options.rank.count; ++peer) {
    if (peer == options.rank.index) continue;
    const Range others = shard(group.memory, peer);
    for (const Use& use : uses[static_cast<std::size_t>(exchange.what.group)]) {
      const LayerPart& part = layer_at(use.layer).parts[use.part];
      const Range whole{part.begin, part.begin + layout.gradient_elements_of(part)};
      for (int device = 0; device < options.devices; ++device) {
        const Contribution& mine = group.gradients[hand_over.contribution(use.layer, use.part, device)];
        if (const Range sent = common(whole, others); sent.count() > 0) {
          const auto before = static_cast<Bytes>(sent.begin - whole.begin);
          exchange.sent.push_back({peer, {mine.data + before * size, static_cast<Bytes>(sent.count()) * size}});
        }
        const Range taken = common(whole, own);
        group.gradients[hand_over.contribution(use.layer, use.part, device, peer)] = {at, taken.begin, taken.end};
        if (taken.count() == 0) continue;
        exchange.received.push_back({peer, {at, static_cast<Bytes>(taken.count()) * size}});
        at += exchange.received.back().bytes.size();
      }
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
    const auto r = static_cast<std::size_t>(rank);
    const auto first = static_cast<Bytes>(memory.cuts()[r].wire), end = static_cast<Bytes>(memory.cuts()[r + 1].wire);
    return memory.wire().subspan(first * size_of(options.wire), (end - first) * size_of(options.wire));
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
    if (const std::optional<GroupExchange> next = self.hand_over.start_exchange(self.received.has_room())) {
      RankExchange exchange{*next, self.first_layer(next->group), {}, {}};
      Implementation::GroupData& group = self.groups[static_cast<std::size_t>(next->group)];
      switch (next->kind) {
        case ExchangeKind::gradients:
          group.received_slot = self.received.take(next->group).value();
          self.add_gradients(exchange);
          break;
        case ExchangeKind::squares:
          self.add_squares(exchange);
          break;
        case ExchangeKind::wire:
          self.add_wire(exchange);
          break;
      }
      return exchange;
    }
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
    return memory.state(own.cuts()[r], own.cuts()[r + 1]);
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
  std::ranges::copy(own.wire(), self.gathered->wire().begin());
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
  {
    const auto guard = self.lock();
    bool finite = true;
    if (exchange.kind == ExchangeKind::squares) {
      double sum = 0;
      for (const double of_block : self.groups[static_cast<std::size_t>(exchange.group)].block_sums) sum += of_block;
      finite = std::isfinite(sum);
      self.take_check(exchange.group, sum);
    }
    self.hand_over.finish_exchange(exchange, finite);
  }
  self.notify();
}

void ParameterStore::stop_exchanges() {
  {
    const auto guard = implementation_->lock();
    implementation_->exchanges_stopped = true;
  }
  implementation_->notify();
}

}  // namespace l2l::eps

// Wires that no rank has as a whole: each layer's is gathered from all ranks for its visit to the devices.
#include "eps/store_implementation.h"
#include "l2l/errors.h"

namespace l2l::eps {

VisitId ParameterStore::Implementation::take_visit(int device, LayerIndex layer, Version version) {
  if (!visits.has_announced(device)) {
    visits.announce(device, std::span(&layer, 1), version, /*devices=*/1);
    changed.notify_all();
  }
  const VisitId id = visits.take(device);
  if (visits[id].layer == layer && visits[id].version == version) return id;
  throw Error("layer " + layer_at(layer).name + " is pulled where layer " + layer_at(visits[id].layer).name +
              " was announced");
}

// Its lease lasts until the last device has given the visit back.
std::optional<RankExchange> ParameterStore::Implementation::start_visit() {
  const std::optional<VisitId> id = options.shards_wires() ? visits.next() : std::nullopt;
  if (!id || !leasable(visits[*id].layer, visits[*id].version)) return std::nullopt;
  const LayerIndex layer = visits[*id].layer;
  visits[*id].started = true;
  hand_over.lease(layer);
  ++leases;
  RankExchange exchange{{ExchangeKind::visit, -1, *id}, layer, {}, {}};
  add_visit(*id, exchange);
  return exchange;
}

// What is here is sent from, and read by the devices, where it lies; the rest comes to the visit's slot.
void ParameterStore::Implementation::add_visit(VisitId id, RankExchange& exchange) {
  const Bytes size = size_of(options.wire);
  std::vector<WirePart>& parts = visits.parts(id);
  parts.clear();
  for (const LayerPart& part : layer_at(exchange.layer).parts) {
    const GroupMemory& memory = groups[static_cast<std::size_t>(part.group)].memory;
    const ElementRange all{part.begin, part.begin + layout.elements_of(part)};
    const auto offset = [&](std::int64_t element) {
      return static_cast<Bytes>(part.offset + element - all.begin) * size;
    };
    const auto add_part = [&](const std::byte* data, ElementRange range) {
      if (range.count() > 0) parts.push_back({data, static_cast<Bytes>(range.count()) * size, offset(range.begin)});
    };
    if (!memory.shards_wire()) {
      add_part(memory.wire(all.begin, all.end).data(), all);
      continue;
    }
    const auto of_rank = [&](int rank) { return all.common(wire_of_rank(memory.cuts(), rank)); };
    const auto slot_at = [&](std::int64_t element) { return visits.slot(id) + offset(element); };
    const ElementRange own = of_rank(options.rank.index);
    const std::span<const std::byte> mine = memory.wire(own.begin, own.end);
    for (int peer = 0; peer < options.rank.count; ++peer) {
      if (peer == options.rank.index) continue;
      const ElementRange its = of_rank(peer);
      if (!mine.empty()) exchange.sent.push_back({peer, mine});
      if (its.count() > 0) {
        exchange.received.push_back({peer, {slot_at(its.begin), static_cast<Bytes>(its.count()) * size}});
      }
    }
    add_part(slot_at(all.begin), {all.begin, own.begin});
    add_part(mine.data(), own);
    add_part(slot_at(own.end), {own.end, all.end});
  }
}

}  // namespace l2l::eps

// What ranks exchange of a group, each of which has a shard of it.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/transport.h"
#include "core/model_layout.h"

namespace l2l::eps {

// Of a group the gradients of each shard, to the rank that has it; sums of squares of the shards; the shards of the new
// wire. Of a layer's visit to the devices, shards of the wires of its groups.
enum class ExchangeKind : std::uint8_t { gradients, squares, wire, visit };
inline constexpr int kExchangeKinds = 4, kGroupExchangeKinds = 3;

struct GroupExchange {
  ExchangeKind kind;
  GroupIndex group = -1;    // of a visit: none
  std::uint64_t visit = 0;  // counted from the begin of the run
  bool operator==(const GroupExchange&) const = default;
};

// This rank's part of one. Between two ranks the pieces have one order and the same sizes on both; none is empty. Their
// memory rests until ParameterStore::finish_exchange().
struct RankExchange {
  GroupExchange what;
  LayerIndex layer;  // of a visit; where a group is used first, for people; -1: nowhere
  std::vector<collectives::Send> sent;
  std::vector<collectives::Receive> received;
};

}  // namespace l2l::eps

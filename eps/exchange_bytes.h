// What a rank exchanges of a group in a step, counted from the plan alone: the bytes that its courier will count
// (transfer/courier.h).
#pragma once

#include <span>
#include <vector>

#include "collectives/collectives.h"
#include "core/model_layout.h"
#include "eps/parameter_store.h"
#include "eps/shards.h"

namespace l2l::eps {

struct ExchangeBytes {
  collectives::Traffic gradients, squares, wire;
  collectives::Traffic all() const { return gradients + squares + wire; }
  ExchangeBytes operator+(const ExchangeBytes& other) const {
    return {gradients + other.gradients, squares + other.squares, wire + other.wire};
  }
};

// Of each rank, in a step that updates the group, which is used as `uses` tells (gradients_of_uses()). Nothing with one
// rank. Pure.
std::vector<ExchangeBytes> exchange_bytes(const GroupSpec& group, std::span<const ElementRange> uses,
                                          const StoreOptions& options);
// Of each rank, in a visit of the layer to the devices, whose wire is gathered for it where wires are sharded.
std::vector<collectives::Traffic> visit_bytes(const ModelLayout& layout, LayerIndex layer, const StoreOptions& options);

}  // namespace l2l::eps

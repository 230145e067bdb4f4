// What a rank exchanges of a group in a step, counted from the plan alone: the bytes that its courier will count
// (transfer/courier.h).
#pragma once

#include "collectives/collectives.h"
#include "core/model_layout.h"
#include "eps/parameter_store.h"

namespace l2l::eps {

struct ExchangeBytes {
  collectives::Traffic gradients, squares, wire;
};

// Of a step that updates the group, which layers use as in `layout`. Nothing with one rank. Pure.
ExchangeBytes exchange_bytes(const ModelLayout& layout, GroupIndex group, const StoreOptions& options);
// Of a visit of the layer to the devices, whose wire is gathered for it where wires are sharded.
collectives::Traffic visit_bytes(const ModelLayout& layout, LayerIndex layer, const StoreOptions& options);

}  // namespace l2l::eps

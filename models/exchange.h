// Blocks that are exchanged between steps: which lists of them there may be, and a model with one of them.
#pragma once

#include <cstdint>
#include <span>

#include "l2l/graph.h"
#include "models/model.h"

namespace l2l::models {

// Completes a model whose blocks are exchanged: its `exchange` has the candidates, and what they read and make. Leaves
// it with the longest list, for which memory is planned. Throws BadInput where there are not enough layers for that, or
// too many types.
void exchange_blocks(Model& model, const LayerReserve& reserve);

// Throws BadInput where the model's blocks are fixed, and where the list has a layer that was not reserved, more layers
// or uses of one than were, or one that does not read what the one before it returns.
void check_list(const Model& model, std::span<const std::uint32_t> ids);
// Makes it the model's list, which check_list() would accept: types, parameters and sizes of layers follow. Groups and
// types stay.
void set_list(Model& model, std::span<const std::uint32_t> ids);

}  // namespace l2l::models

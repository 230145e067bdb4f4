// What the blocks of a model keep and what they recompute: the programs of a policy (device/recompute) in the place of
// those that keep the layer input alone. Embedding and head have no choice: one recomputes next to nothing, the other
// goes forward straight into backward.
#pragma once

#include "l2l/options.h"
#include "models/model.h"

namespace l2l::runtime {

// Throws BadInput when a block's graph has no derivative.
void apply_recomputation(models::Model& model, const RecomputeOptions& options);

}  // namespace l2l::runtime

// Layers that a program describes (include/l2l/graph.h), as parts of a family's blocks.
#pragma once

#include "l2l/graph.h"
#include "models/family.h"

namespace l2l::models {

// The layer's ops. Throws BadInput naming the layer where it is described wrongly.
Family::Part part_of(const Layer& layer);

// Throws BadInput where ids or types do not fit together.
void check_layers(const std::vector<Layer>& layers);

}  // namespace l2l::models

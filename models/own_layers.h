// Layers that a program describes (include/l2l/graph.h), as parts of a family's blocks.
#pragma once

#include "l2l/graph.h"
#include "models/family.h"

namespace l2l::models {

// The layer's ops. Throws BadInput naming the layer where it is described wrongly.
Family::Part part_of(const Layer& layer);

// Throws BadInput where a model that is built for another length of sequences, or to continue texts, has other
// parameters: a layer's depend on LayerBuilder::sequence() or rows().
void check_same_parameters(const ModelLayout& layout, const ModelLayout& other);

// Throws BadInput where ids or types do not fit together.
void check_layers(const std::vector<Layer>& layers);

}  // namespace l2l::models

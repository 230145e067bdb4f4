// Architectures of images that options name: custom models whose layers follow from the keys of [model].
#pragma once

#include <cstdint>

#include "l2l/options.h"

namespace l2l::models {

// Classes where neither options nor data say: those of ImageNet (Russakovsky et al., 2015).
inline constexpr std::int64_t kImageClasses = 1000;

// `model` with the layers, tensors and loss of its architecture, which is one of images; with "accuracy" and
// "accuracy_top5" as metrics where it has none; and with what its variant gives for image_size = 0 and, unless
// `has_dropout`, for the dropout. Layers that are there are made anew. Throws BadInput naming the keys that do not fit
// together.
ModelOptions with_image_layers(ModelOptions model, bool has_dropout);

}  // namespace l2l::models

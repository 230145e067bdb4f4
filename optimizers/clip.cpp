#include "optimizers/clip.h"

#include <algorithm>

namespace l2l::optimizers {

double clip_factor(double norm, double max_norm) { return std::min(1.0, max_norm / (norm + 1e-6)); }

}  // namespace l2l::optimizers

// Gradient clipping by norm.
#pragma once

#include <algorithm>

namespace l2l::optimizers {

// Factor on every gradient: min(1, max_norm / (norm + 1e-6)), in double (as PyTorch's clip_grad_norm_).
inline double clip_factor(double norm, double max_norm) { return std::min(1.0, max_norm / (norm + 1e-6)); }

}  // namespace l2l::optimizers

// Gradient clipping by norm.
#pragma once

namespace l2l::optimizers {

// Factor on every gradient: min(1, max_norm / (norm + 1e-6)), in double (as PyTorch's clip_grad_norm_).
double clip_factor(double norm, double max_norm);

}  // namespace l2l::optimizers

// The limit that memory sets for an update: a kernel that reads and writes the same arrays in the same loop, with
// exclusive-or instead of arithmetic.
#pragma once

#include "core/dtype.h"
#include "optimizers/format.h"
#include "optimizers/kernels.h"
#include "optimizers/streams.h"

namespace l2l::tools {

// Destroys its operands; a second run over the same streams restores them.
using StreamBaseline = void (*)(const optimizers::Streams&);

// The baselines of one instruction set, by optimizers::index_of(type of wire and gradients). Immutable.
struct StreamBaselines {
  const char* name;  // as Kernels::name
  StreamBaseline two_moments[optimizers::kGradientFormats][optimizers::kMomentPairs];
  StreamBaseline one_moment[optimizers::kGradientFormats][optimizers::kMomentFormats];
};

// Compiled for the instruction set of `kernels`; the gradients are of the wire's type.
const StreamBaselines& stream_baselines(const optimizers::Kernels& kernels);

}  // namespace l2l::tools

// The linear network of the paper's asymptotic analysis (Kirisame et al., 2021, section 3 and appendix A), as the
// authors' simulator sets it up: n forward ops, each of the one before, and n gradients, each of the gradient before
// and of the forward tensor one layer below. Every op takes one unit of time and makes one byte. There are no constants
// and nothing is pinned. A forward tensor is released before its layer's gradient is taken, a gradient once the next is
// there.
#pragma once

#include "compiler/remat/dtr/trace.h"

namespace l2l::compiler::remat::dtr {

class ChainBuilder {
 public:
  Trace build(Index layers) {
    for (Index i = 0; i < layers; ++i) run(i == 0 ? std::vector<Index>{} : std::vector<Index>{i - 1});
    release(layers - 1);
    Index gradient = run({});
    for (Index layer = layers - 1; layer-- > 0;) {
      release(layer);
      const Index next = run(layer == 0 ? std::vector<Index>{gradient} : std::vector<Index>{layer - 1, gradient});
      release(gradient);
      gradient = next;
    }
    return std::move(trace_);
  }

 private:
  Index run(std::vector<Index> args) {
    const auto index = static_cast<Index>(trace_.ops.size());  // of the op, and of the one tensor that it makes
    trace_.ops.push_back({1, std::move(args), {{1, kNone}}});
    trace_.steps.push_back({Trace::Action::run, index});
    ++trace_.time;
    return index;
  }

  void release(Index tensor) { trace_.steps.push_back({Trace::Action::release, tensor}); }

  Trace trace_;
};

}  // namespace l2l::compiler::remat::dtr

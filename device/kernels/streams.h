// Elements of streams: fp32, or fixed point (core/fixed_point.h). Compute types are streams of themselves where a
// gradient is split.
#pragma once

#include "core/fixed_point.h"
#include "device/kernels/convert.h"
#include "device/kernels/operands.h"

namespace l2l::device::kernels {

using Fixed = std::int32_t;

inline float widen(Fixed value) { return from_fixed(value); }

template <>
inline Fixed narrow<Fixed>(float value) {
  return to_fixed(value);
}

inline float couple(float x, float b, bool inverse) { return inverse ? x - b : x + b; }
inline Fixed couple(Fixed x, float b, bool inverse) {
  return inverse ? subtract_fixed(x, to_fixed(b)) : add_fixed(x, to_fixed(b));
}

// KernelFor<Stream, T>: the kernel class for a stream and a compute type.
template <template <typename, typename> class KernelFor>
std::unique_ptr<Kernel> make_for_stream(const graph::Graph& graph, const graph::Op& op, DType stream, DType compute) {
  require_compute_type(op, compute);
  const auto make = [&]<typename Stream>() -> std::unique_ptr<Kernel> {
    if (compute == DType::f32) return std::make_unique<KernelFor<Stream, float>>(graph, op);
    if (compute == DType::f16) return std::make_unique<KernelFor<Stream, f16>>(graph, op);
    return std::make_unique<KernelFor<Stream, bf16>>(graph, op);
  };
  if (stream == DType::i32) return make.template operator()<Fixed>();
  if (stream == DType::f32) return make.template operator()<float>();
  throw BadInput("no host kernel of " + std::string(graph::name_of(op.kind)) + " for a stream of " +
                 std::string(name_of(stream)));
}

}  // namespace l2l::device::kernels

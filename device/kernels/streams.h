// Elements of streams: fp32, or fixed point (core/fixed_point.h). Compute types are streams of themselves where a
// gradient is split.
#pragma once

#include <algorithm>

#include "core/fixed_point.h"
#include "device/kernels/common/operands.h"
#include "device/kernels/convert.h"

namespace l2l::device::kernels {

using Fixed = std::int32_t;

inline float widen(Fixed value) { return from_fixed(value); }

template <>
inline Fixed narrow<Fixed>(float value) {
  return to_fixed(value);
}

// To invert, add -b: rounding is symmetric.
inline float reversible_add(float x, float b) { return x + b; }
inline Fixed reversible_add(Fixed x, float b) { return add_fixed(x, to_fixed(b)); }

// y[i] = value(i), rounded. In two loops with a buffer between, which the compiler vectorises; it does not a single
// one.
template <typename T, typename Value>
void narrow_each(T* y, std::int64_t begin, std::int64_t end, const Value& value) {
  constexpr std::int64_t kChunk = 512;
  float chunk[kChunk];
  for (std::int64_t first = begin; first < end; first += kChunk) {
    const std::int64_t count = std::min(kChunk, end - first);
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) chunk[i] = value(first + i);
    narrow_row(chunk, y + first, count);
  }
}

// The kernel class for the types of a stream and of a value of the compute type, which are operands of the op.
template <template <typename, typename> class KernelFor, std::size_t kStream, std::size_t kCompute>
std::unique_ptr<Kernel> make_for_stream(const OpView& op) {
  const DType stream = op.operand(kStream).dtype, compute = op.operand(kCompute).dtype;
  require_compute_type(op, compute);
  const auto make = [&]<typename Stream>() -> std::unique_ptr<Kernel> {
    if (compute == DType::f32) return std::make_unique<KernelFor<Stream, float>>(op);
    if (compute == DType::f16) return std::make_unique<KernelFor<Stream, f16>>(op);
    return std::make_unique<KernelFor<Stream, bf16>>(op);
  };
  if (stream == DType::i32) return make.template operator()<Fixed>();
  if (stream == DType::f32) return make.template operator()<float>();
  throw BadInput("no host kernel of " + std::string(compiler::name_of(op.kind)) + " for a stream of " +
                 std::string(name_of(stream)));
}

}  // namespace l2l::device::kernels

// Conversions between storage types and fp32, in which kernels compute.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/dtype.h"
#include "core/half_rows.h"
#include "device/kernels/kernel.h"
#include "l2l/errors.h"

namespace l2l::device::kernels {

inline float widen(float value) { return value; }
inline float widen(bf16 value) { return to_float(value); }
inline float widen(f16 value) { return to_float(value); }

template <typename T>
T narrow(float value);
template <>
inline float narrow<float>(float value) {
  return value;
}
template <>
inline bf16 narrow<bf16>(float value) {
  return to_bf16(value);
}
template <>
inline f16 narrow<f16>(float value) {
  return to_f16(value);
}

template <typename T>
void widen_row(const T* source, float* destination, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) destination[i] = widen(source[i]);
}

template <typename T>
void narrow_row(const float* source, T* destination, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) destination[i] = narrow<T>(source[i]);
}

inline void widen_row(const bf16* source, float* destination, std::int64_t count) {
  to_float(source, destination, count);
}

inline void narrow_row(const float* source, bf16* destination, std::int64_t count) {
  to_bf16(source, destination, count);
}

inline void widen_row(const f16* source, float* destination, std::int64_t count) {
  to_float(source, destination, count);
}

inline void narrow_row(const float* source, f16* destination, std::int64_t count) {
  to_f16(source, destination, count);
}

// Throws BadInput unless `dtype` is a compute type.
inline void require_compute_type(const OpView& op, DType dtype) {
  if (is_compute_type(dtype)) return;
  throw BadInput("no host kernel of " + std::string(compiler::name_of(op.kind)) + " for " +
                 std::string(name_of(dtype)) + ": the compute type is f32, bf16 or f16");
}

// The kernel class for a compute type.
template <template <typename> class KernelFor>
std::unique_ptr<Kernel> make_for_dtype(const OpView& op, DType dtype) {
  require_compute_type(op, dtype);
  if (dtype == DType::f32) return std::make_unique<KernelFor<float>>(op);
  if (dtype == DType::f16) return std::make_unique<KernelFor<f16>>(op);
  return std::make_unique<KernelFor<bf16>>(op);
}

// Factories of kernels for the type of an input, and of the first output.
template <template <typename> class KernelFor, std::size_t kPosition = 0>
std::unique_ptr<Kernel> make_for_input(const OpView& op) {
  return make_for_dtype<KernelFor>(op, op.input(kPosition).dtype);
}
template <template <typename> class KernelFor>
std::unique_ptr<Kernel> make_for_output(const OpView& op) {
  return make_for_dtype<KernelFor>(op, op.output(0).dtype);
}

}  // namespace l2l::device::kernels

// CUDA's device language for g++: force-included before a .cu file, with the toolkit's real headers in host mode. What
// is missing here is not supported by the emulation, and does not compile.
#pragma once

// The toolkit's own template cannot copy arguments of any type; ours below can.
#define cudaLaunchKernelEx hidden_cudaLaunchKernelEx
#include <cuda_runtime.h>
#undef cudaLaunchKernelEx

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "tests/emulation/engine.h"
#include "tests/emulation/runtime.h"

#undef __shared__
#define __shared__ static thread_local
#undef __launch_bounds__
#define __launch_bounds__(...)
#define __builtin_assume(condition) static_cast<void>(0)

namespace l2l::emulation {

inline void need_full_mask(unsigned int mask) {
  if (mask != 0xFFFFFFFFu) throw Fault("a warp function with another mask than 0xffffffff");
}

// What lane `from` of `width` lanes around this one gave; this lane's own value where `from` lies outside.
template <typename T>
T shuffle(const char* where, unsigned int mask, T value, int from, int width) {
  need_full_mask(mask);
  const std::byte* const slots = warp_exchange(where, &value, sizeof value);
  const int first = lane() / width * width;
  return from < first || from >= first + width ? value : of_lane<T>(slots, from);
}

inline unsigned int ballot(const char* where, unsigned int mask, bool predicate) {
  need_full_mask(mask);
  const std::byte* const slots = warp_exchange(where, &predicate, sizeof predicate);
  unsigned int bits = 0;
  for (int i = 0; i < kWarp; ++i) bits |= static_cast<unsigned int>(of_lane<bool>(slots, i)) << i;
  return bits;
}

template <typename T>
T reduce_lanes(const char* where, unsigned int mask, T value, auto&& combine) {
  need_full_mask(mask);
  const std::byte* const slots = warp_exchange(where, &value, sizeof value);
  T result = of_lane<T>(slots, 0);
  for (int i = 1; i < kWarp; ++i) result = combine(result, of_lane<T>(slots, i));
  return result;
}

template <typename T>
concept Integer = std::is_integral_v<T>;
template <typename T>
concept Number = std::is_arithmetic_v<T>;

}  // namespace l2l::emulation

// The names below are CUDA's own, in the global namespace.

inline constexpr int warpSize = 32;

inline void __syncthreads() { l2l::emulation::wait_for_block("__syncthreads"); }
inline void __syncwarp(unsigned int mask = 0xFFFFFFFFu) {
  l2l::emulation::need_full_mask(mask);
  l2l::emulation::warp_exchange("__syncwarp", nullptr, 0);
}
inline void __threadfence() {}
inline void __threadfence_block() {}

template <typename T>
T __shfl_sync(unsigned int mask, T value, int from, int width = 32) {
  const int first = l2l::emulation::lane() / width * width;
  return l2l::emulation::shuffle("__shfl_sync", mask, value, first + (from & (width - 1)), width);
}
template <typename T>
T __shfl_xor_sync(unsigned int mask, T value, int bits, int width = 32) {
  return l2l::emulation::shuffle("__shfl_xor_sync", mask, value, l2l::emulation::lane() ^ bits, width);
}
template <typename T>
T __shfl_down_sync(unsigned int mask, T value, unsigned int distance, int width = 32) {
  return l2l::emulation::shuffle("__shfl_down_sync", mask, value, l2l::emulation::lane() + static_cast<int>(distance),
                                 width);
}
template <typename T>
T __shfl_up_sync(unsigned int mask, T value, unsigned int distance, int width = 32) {
  return l2l::emulation::shuffle("__shfl_up_sync", mask, value, l2l::emulation::lane() - static_cast<int>(distance),
                                 width);
}
inline unsigned int __ballot_sync(unsigned int mask, int predicate) {
  return l2l::emulation::ballot("__ballot_sync", mask, predicate != 0);
}
inline int __any_sync(unsigned int mask, int predicate) {
  return l2l::emulation::ballot("__any_sync", mask, predicate != 0) != 0;
}
inline int __all_sync(unsigned int mask, int predicate) {
  return l2l::emulation::ballot("__all_sync", mask, predicate != 0) == 0xFFFFFFFFu;
}
template <l2l::emulation::Integer T>
T __reduce_add_sync(unsigned int mask, T value) {
  return l2l::emulation::reduce_lanes("__reduce_add_sync", mask, value, [](T a, T b) { return a + b; });
}
template <l2l::emulation::Integer T>
T __reduce_max_sync(unsigned int mask, T value) {
  return l2l::emulation::reduce_lanes("__reduce_max_sync", mask, value, [](T a, T b) { return a > b ? a : b; });
}
template <l2l::emulation::Integer T>
T __reduce_min_sync(unsigned int mask, T value) {
  return l2l::emulation::reduce_lanes("__reduce_min_sync", mask, value, [](T a, T b) { return a < b ? a : b; });
}

// Loads and stores with cache hints.
#define L2L_EMULATION_LOAD(name)               \
  template <typename T>                        \
  std::remove_cv_t<T> name(const T* address) { \
    return *address;                           \
  }
L2L_EMULATION_LOAD(__ldg)
L2L_EMULATION_LOAD(__ldcs)
L2L_EMULATION_LOAD(__ldcg)
L2L_EMULATION_LOAD(__ldca)
L2L_EMULATION_LOAD(__ldlu)
L2L_EMULATION_LOAD(__ldcv)
#undef L2L_EMULATION_LOAD
#define L2L_EMULATION_STORE(name)                               \
  template <typename T>                                         \
  void name(T* address, const std::type_identity_t<T>& value) { \
    *address = value;                                           \
  }
L2L_EMULATION_STORE(__stcs)
L2L_EMULATION_STORE(__stcg)
L2L_EMULATION_STORE(__stwb)
L2L_EMULATION_STORE(__stwt)
#undef L2L_EMULATION_STORE

// On integers alone: sums of floating-point numbers would depend on the order. Blocks run one after the other.
template <l2l::emulation::Integer T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  const T before = *address;
  *address += value;
  return before;
}
template <l2l::emulation::Integer T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  const T before = *address;
  *address = before > value ? before : value;
  return before;
}
template <l2l::emulation::Integer T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  const T before = *address;
  *address = before < value ? before : value;
  return before;
}
template <l2l::emulation::Integer T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  const T before = *address;
  *address |= value;
  return before;
}
template <l2l::emulation::Integer T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  const T before = *address;
  *address = value;
  return before;
}
template <l2l::emulation::Integer T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  const T before = *address;
  if (before == expected) *address = value;
  return before;
}

[[noreturn]] inline void __trap() { throw l2l::emulation::Fault("__trap()"); }

// Arithmetic that host mode lacks. A macro where glibc declares (and does not export) the name.
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
#define __expf(x) ::expf(x)
#define __exp10f(x) ::exp10f(x)
#define __logf(x) ::logf(x)
#define __log2f(x) ::log2f(x)
#define __tanhf(x) ::tanhf(x)
#define __sinf(x) ::sinf(x)
#define __cosf(x) ::cosf(x)
#define __powf(x, y) ::powf(x, y)
inline float __fdividef(float x, float y) { return x / y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __frsqrt_rn(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
// Never contracted to a fused multiply-add.
[[gnu::noinline]] inline float __fmul_rn(float x, float y) { return x * y; }
[[gnu::noinline]] inline float __fadd_rn(float x, float y) { return x + y; }
[[gnu::noinline]] inline float __fsub_rn(float x, float y) { return x - y; }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned int __float_as_uint(float x) { return std::bit_cast<unsigned int>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned int x) { return std::bit_cast<float>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned int>(x)); }
inline int __popc(unsigned int x) { return std::popcount(x); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned int>(x)) + 1; }
inline unsigned int __umulhi(unsigned int x, unsigned int y) {
  return static_cast<unsigned int>(std::uint64_t{x} * y >> 32);
}

// CUDA's min and max take mixed types, and of a NaN and a number the number.
template <l2l::emulation::Number A, l2l::emulation::Number B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmax(static_cast<T>(a), static_cast<T>(b));
  } else {
    return static_cast<T>(a) > static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
  }
}
template <l2l::emulation::Number A, l2l::emulation::Number B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmin(static_cast<T>(a), static_cast<T>(b));
  } else {
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
  }
}

// The function that runs the kernel owns copies of the arguments.
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  return l2l::emulation::launch(*config, reinterpret_cast<const void*>(kernel),
                                [kernel, copies = std::tuple<std::decay_t<Parameters>...>(
                                             std::forward<Arguments>(arguments)...)] { std::apply(kernel, copies); });
}

// The width of the build's vector registers, and a vector of floats of that width (GCC and Clang vector extension).
#pragma once

#include <cstdint>
#include <cstring>

namespace l2l::device::kernels {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
inline constexpr int kVectorRegisters = 32;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
inline constexpr int kVectorRegisters = 16;
#else
inline constexpr int kVectorBytes = 16;
inline constexpr int kVectorRegisters = 16;
#endif

inline constexpr int kLanes = kVectorBytes / 4;

typedef float FloatVector __attribute__((vector_size(kVectorBytes)));

inline FloatVector load_vector(const float* source) {
  FloatVector vector;
  std::memcpy(&vector, source, sizeof vector);
  return vector;
}

inline void store_vector(float* destination, FloatVector vector) { std::memcpy(destination, &vector, sizeof vector); }

// Rounds `count` up to whole vectors.
constexpr std::int64_t whole_vectors(std::int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

}  // namespace l2l::device::kernels

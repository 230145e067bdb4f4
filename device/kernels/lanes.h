// The width of the build's vector registers, and a vector of floats of that width (GCC and Clang vector extension).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

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

namespace detail {

template <std::size_t Step, std::size_t... Lane>
void exchange(FloatVector& a, FloatVector& b, std::index_sequence<Lane...>) {
  const FloatVector low = __builtin_shufflevector(a, b, (Lane & Step ? Lane - Step + kLanes : Lane)...);
  b = __builtin_shufflevector(a, b, (Lane & Step ? Lane + kLanes : Lane + Step)...);
  a = low;
}

template <std::size_t Step>
void exchange_all(FloatVector* rows) {
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kLanes; ++i) {
    if ((i & Step) == 0) exchange<Step>(rows[i], rows[i + Step], std::make_index_sequence<kLanes>());
  }
  if constexpr (2 * Step < kLanes) exchange_all<2 * Step>(rows);
}

}  // namespace detail

// Transposes kLanes vectors in place: swaps off-diagonal blocks of 1, 2, 4, ... elements.
inline void transpose_in_registers(FloatVector* rows) { detail::exchange_all<1>(rows); }

// `count` rounded up to whole vectors.
constexpr std::int64_t whole_vectors(std::int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

// Transposes a matrix of 32-bit words; rows are filled up with zeros to whole vectors, of which columns are made up.
template <typename Word>
void transpose(std::int64_t rows, std::int64_t columns, const Word* source, std::ptrdiff_t source_row,
               Word* destination, std::ptrdiff_t destination_row) {
  static_assert(sizeof(Word) == sizeof(float));
  for (std::int64_t row = 0; row < rows; row += kLanes) {
    for (std::int64_t column = 0; column < columns; column += kLanes) {
      FloatVector block[kLanes] = {};  // moved, never computed with
      for (std::int64_t i = 0; i < kLanes; ++i) {
        if (row + i < rows) std::memcpy(&block[i], source + (row + i) * source_row + column, sizeof block[i]);
      }
      transpose_in_registers(block);
      for (std::int64_t i = 0; i < kLanes; ++i) {
        std::memcpy(destination + (column + i) * destination_row + row, &block[i], sizeof block[i]);
      }
    }
  }
}

}  // namespace l2l::device::kernels

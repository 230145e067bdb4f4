// Sixteen lanes in the compiler's vector type, for every processor. The reference that the other packs must equal bit
// for bit. All names are in a namespace of this instruction set, so that no code compiled for another one can replace
// theirs (optimizers/kernel_table.h). Immutable.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/dtype.h"

#define L2L_INLINE inline __attribute__((always_inline))

namespace l2l::optimizers::portable {

template <typename T>
struct Vector {
  typedef T Sixteen __attribute__((vector_size(16 * sizeof(T))));
  static L2L_INLINE Sixteen load(const T* from) {
    Sixteen all;
    std::memcpy(&all, from, sizeof all);
    return all;
  }
  static L2L_INLINE void store(T* to, Sixteen all) { std::memcpy(to, &all, sizeof all); }
};
using Unsigned = Vector<std::uint32_t>::Sixteen;
using Signed = Vector<std::int32_t>::Sixteen;
using Floats = Vector<float>::Sixteen;
using Doubles = Vector<double>::Sixteen;

// Functions whose code is long in this set are not inlined.
#define L2L_OUTLINE inline __attribute__((noinline))
L2L_OUTLINE void halves_to_floats(const std::uint16_t* from, float* to) {
  for (int i = 0; i < 16; ++i) to[i] = l2l::to_float(f16{from[i]});
}
L2L_OUTLINE void floats_to_halves(const float* from, std::uint16_t* to) {
  for (int i = 0; i < 16; ++i) to[i] = l2l::to_f16(from[i]).bits;
}

template <typename Wide, typename T>
L2L_OUTLINE void widen_row(const T* from, std::uint32_t* to) {
  for (int i = 0; i < 16; ++i) to[i] = static_cast<std::uint32_t>(static_cast<Wide>(from[i]));
}
template <typename T>
L2L_OUTLINE void narrow_row(const std::uint32_t* from, T* to) {
  for (int i = 0; i < 16; ++i) to[i] = static_cast<T>(from[i]);
}
L2L_OUTLINE void widen_bytes(const std::uint8_t* from, std::uint16_t* to) {
  for (int i = 0; i < 32; ++i) to[i] = from[i];
}
L2L_OUTLINE void narrow_halves(const std::uint16_t* from, std::uint8_t* to) {
  for (int i = 0; i < 32; ++i) to[i] = static_cast<std::uint8_t>(from[i]);
}

// Sixteen 32-bit words.
struct Words {
  Unsigned value;

  static L2L_INLINE Words all(std::uint32_t value) { return {value - Unsigned{}}; }
  static L2L_INLINE Words ramp() { return {Unsigned{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}; }
  // Sixteen words as they lie.
  static L2L_INLINE Words load(const void* from) {
    Words all;
    std::memcpy(&all, from, sizeof all);
    return all;
  }
  L2L_INLINE void store(void* to) const { std::memcpy(to, this, sizeof *this); }
  static L2L_INLINE Words load_u16(const std::uint16_t* from) { return widen<std::uint32_t>(from); }
  static L2L_INLINE Words load_i16(const std::uint16_t* from) {
    return widen<std::int32_t>(reinterpret_cast<const std::int16_t*>(from));
  }
  static L2L_INLINE Words load_u8(const std::uint8_t* from) { return widen<std::uint32_t>(from); }
  // The low bits of each lane.
  L2L_INLINE void store_u16(std::uint16_t* to) const { narrow(to); }
  L2L_INLINE void store_u8(std::uint8_t* to) const { narrow(to); }
  // Thirty-two bytes, one in each half of a word: those at even positions in the lower halves.
  static L2L_INLINE Words load_byte_pairs(const std::uint8_t* from) {
    std::uint16_t halves[32];
    widen_bytes(from, halves);
    return load(halves);
  }
  // The low bytes of all halves; their high ones are 0.
  L2L_INLINE void store_byte_pairs(std::uint8_t* to) const {
    std::uint16_t halves[32];
    store(halves);
    narrow_halves(halves, to);
  }

 private:
  template <typename Wide, typename T>
  static L2L_INLINE Words widen(const T* from) {
    std::uint32_t row[16];
    widen_row<Wide>(from, row);
    return {Vector<std::uint32_t>::load(row)};
  }
  template <typename T>
  L2L_INLINE void narrow(T* to) const {
    std::uint32_t row[16];
    Vector<std::uint32_t>::store(row, value);
    narrow_row(row, to);
  }
};

L2L_INLINE Words operator+(Words a, Words b) { return {a.value + b.value}; }
L2L_INLINE Words operator-(Words a, Words b) { return {a.value - b.value}; }
L2L_INLINE Words operator*(Words a, Words b) { return {a.value * b.value}; }
L2L_INLINE Words operator&(Words a, Words b) { return {a.value & b.value}; }
L2L_INLINE Words operator|(Words a, Words b) { return {a.value | b.value}; }
L2L_INLINE Words operator^(Words a, Words b) { return {a.value ^ b.value}; }
template <int kBits>
L2L_INLINE Words shift_left(Words a) {
  return {a.value << kBits};
}
template <int kBits>
L2L_INLINE Words shift_right_signed(Words a) {
  return {(Unsigned)((Signed)a.value >> kBits)};
}
template <int kBits>
L2L_INLINE Words shift_right(Words a) {
  return {a.value >> kBits};
}
// The lower half of each word as a signed number.
L2L_INLINE Words signed_lower_halves(Words a) { return shift_right_signed<16>(shift_left<16>(a)); }
// Words with the upper half of `odd` above the upper half of `even`.
L2L_INLINE Words join_halves(Words even, Words odd) { return shift_right<16>(even) | (odd & Words::all(0xffff0000u)); }
// The same with their lower halves.
L2L_INLINE Words join_lower_halves(Words even, Words odd) { return (even & Words::all(0xffffu)) | shift_left<16>(odd); }
L2L_OUTLINE void min_row(const Words& a, Words& b) { b.value = a.value < b.value ? a.value : b.value; }
L2L_OUTLINE void max_row(const Words& a, Words& b) { b.value = a.value > b.value ? a.value : b.value; }
L2L_INLINE Words min(Words a, Words b) {
  min_row(a, b);
  return b;
}
L2L_INLINE Words max(Words a, Words b) {
  max_row(a, b);
  return b;
}

struct Squares;

// Sixteen fp32 numbers; IEEE operations, each rounded by itself.
struct Pack {
  using Words = portable::Words;
  using Squares = portable::Squares;
  Floats value;

  static L2L_INLINE Pack all(float value) { return {value - Floats{}}; }
  static L2L_INLINE Pack load(const float* from) { return {Vector<float>::load(from)}; }
  static L2L_INLINE Pack load_f16(const std::uint16_t* from) {
    float row[16];
    halves_to_floats(from, row);
    return load(row);
  }
  L2L_INLINE void store(float* to) const { Vector<float>::store(to, value); }
  L2L_INLINE void store_f16(std::uint16_t* to) const {
    float row[16];
    store(row);
    floats_to_halves(row, to);
  }
  // Past the caches where the instruction set can; `to` is 32-byte aligned. Ordered before later stores by fence().
  L2L_INLINE void stream_f16(std::uint16_t* to) const { store_f16(to); }
  static L2L_INLINE void fence() {}
};

L2L_INLINE Pack operator+(Pack a, Pack b) { return {a.value + b.value}; }
L2L_INLINE Pack operator-(Pack a, Pack b) { return {a.value - b.value}; }
L2L_INLINE Pack operator*(Pack a, Pack b) { return {a.value * b.value}; }
L2L_INLINE Pack operator/(Pack a, Pack b) { return {a.value / b.value}; }
// a b + c and a b - c with one rounding. Where the processor has no such instruction the library computes it, slowly.
L2L_OUTLINE void row_fma(const float* a, const float* b, float* c) {
  for (int i = 0; i < 16; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
}
L2L_INLINE Pack fused_sum(Pack a, Pack b, Pack c) {
  float factor[16], other[16], row[16];
  a.store(factor);
  b.store(other);
  c.store(row);
  row_fma(factor, other, row);
  return Pack::load(row);
}
L2L_INLINE Pack fused_difference(Pack a, Pack b, Pack c) { return fused_sum(a, b, {-c.value}); }
L2L_OUTLINE void row_sqrt(float* row) {
  for (int i = 0; i < 16; ++i) row[i] = __builtin_sqrtf(row[i]);
}
L2L_INLINE Pack sqrt(Pack a) {
  float row[16];
  a.store(row);
  row_sqrt(row);
  return Pack::load(row);
}
L2L_INLINE Pack min(Pack a, Pack b) { return {a.value < b.value ? a.value : b.value}; }
L2L_INLINE Pack max(Pack a, Pack b) { return {a.value > b.value ? a.value : b.value}; }
// Splits two consecutive rows into the elements at even and at odd positions; and back.
L2L_OUTLINE void part_row_pairs(float* first, float* second) {
  float all[32];
  std::memcpy(all, first, 64);
  std::memcpy(all + 16, second, 64);
  for (int i = 0; i < 16; ++i) {
    first[i] = all[2 * i];
    second[i] = all[2 * i + 1];
  }
}
L2L_OUTLINE void join_row_pairs(float* even, float* odd) {
  float all[32];
  for (int i = 0; i < 16; ++i) {
    all[2 * i] = even[i];
    all[2 * i + 1] = odd[i];
  }
  std::memcpy(even, all, 64);
  std::memcpy(odd, all + 16, 64);
}
L2L_INLINE void part_pairs(Pack& first, Pack& second) {
  part_row_pairs(reinterpret_cast<float*>(&first), reinterpret_cast<float*>(&second));
}
L2L_INLINE void join_pairs(Pack& even, Pack& odd) {
  join_row_pairs(reinterpret_cast<float*>(&even), reinterpret_cast<float*>(&odd));
}
L2L_INLINE Words bits(Pack a) { return {(Unsigned)a.value}; }
L2L_INLINE Pack from_bits(Words a) { return {(Floats)a.value}; }

// Sixteen sums of squares in double, one per lane. The square of an fp32 number is exact in double.
struct Squares {
  Doubles value;

  static L2L_INLINE Squares load(const double* from) { return {Vector<double>::load(from)}; }
  L2L_INLINE void store(double* to) const { Vector<double>::store(to, value); }
  L2L_INLINE void add(Pack a) {
    const Doubles wide = __builtin_convertvector(a.value, Doubles);
    value = value + wide * wide;
  }
};

}  // namespace l2l::optimizers::portable

#undef L2L_OUTLINE

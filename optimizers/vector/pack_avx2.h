// Sixteen lanes in two AVX2 registers (x86-64-v3). The operations are documented in pack_portable.h. Immutable.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define L2L_INLINE inline __attribute__((always_inline))

namespace l2l::optimizers::avx2 {

struct Words {
  __m256i low, high;

  static L2L_INLINE Words all(std::uint32_t value) {
    const __m256i lanes = _mm256_set1_epi32(static_cast<int>(value));
    return {lanes, lanes};
  }
  static L2L_INLINE Words ramp() {
    return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
  }
  static L2L_INLINE Words load(const void* from) {
    const auto* const at = static_cast<const __m256i*>(from);
    return {_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)};
  }
  L2L_INLINE void store(void* to) const {
    auto* const at = static_cast<__m256i*>(to);
    _mm256_storeu_si256(at, low);
    _mm256_storeu_si256(at + 1, high);
  }
  static L2L_INLINE Words load_u16(const std::uint16_t* from) {
    return {_mm256_cvtepu16_epi32(eight(from)), _mm256_cvtepu16_epi32(eight(from + 8))};
  }
  static L2L_INLINE Words load_i16(const std::uint16_t* from) {
    return {_mm256_cvtepi16_epi32(eight(from)), _mm256_cvtepi16_epi32(eight(from + 8))};
  }
  static L2L_INLINE Words load_u8(const std::uint8_t* from) {
    const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return {_mm256_cvtepu8_epi32(all), _mm256_cvtepu8_epi32(_mm_srli_si128(all, 8))};
  }
  static L2L_INLINE Words load_byte_pairs(const std::uint8_t* from) {
    const auto* const at = reinterpret_cast<const __m128i*>(from);
    return {_mm256_cvtepu8_epi16(_mm_loadu_si128(at)), _mm256_cvtepu8_epi16(_mm_loadu_si128(at + 1))};
  }
  L2L_INLINE void store_byte_pairs(std::uint8_t* to) const {
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(low, high), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), packed);
  }
  L2L_INLINE void store_u16(std::uint16_t* to) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), halves(0xffff));
  }
  L2L_INLINE void store_u8(std::uint8_t* to) const {
    const __m256i words = halves(0xff);
    const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(words, words), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(bytes));
  }

  static L2L_INLINE __m128i eight(const std::uint16_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  }

 private:
  L2L_INLINE __m256i halves(int mask) const {
    const __m256i keep = _mm256_set1_epi32(mask);
    const __m256i packed = _mm256_packus_epi32(_mm256_and_si256(low, keep), _mm256_and_si256(high, keep));
    return _mm256_permute4x64_epi64(packed, 0xd8);
  }
};

L2L_INLINE Words operator+(Words a, Words b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
L2L_INLINE Words operator-(Words a, Words b) {
  return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}
L2L_INLINE Words operator*(Words a, Words b) {
  return {_mm256_mullo_epi32(a.low, b.low), _mm256_mullo_epi32(a.high, b.high)};
}
L2L_INLINE Words operator&(Words a, Words b) {
  return {_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high)};
}
L2L_INLINE Words operator|(Words a, Words b) {
  return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)};
}
L2L_INLINE Words operator^(Words a, Words b) {
  return {_mm256_xor_si256(a.low, b.low), _mm256_xor_si256(a.high, b.high)};
}
template <int kBits>
L2L_INLINE Words shift_left(Words a) {
  return {_mm256_slli_epi32(a.low, kBits), _mm256_slli_epi32(a.high, kBits)};
}
template <int kBits>
L2L_INLINE Words shift_right_signed(Words a) {
  return {_mm256_srai_epi32(a.low, kBits), _mm256_srai_epi32(a.high, kBits)};
}
template <int kBits>
L2L_INLINE Words shift_right(Words a) {
  return {_mm256_srli_epi32(a.low, kBits), _mm256_srli_epi32(a.high, kBits)};
}
L2L_INLINE Words signed_lower_halves(Words a) {
  const __m256i one = _mm256_set1_epi32(1);
  return {_mm256_madd_epi16(a.low, one), _mm256_madd_epi16(a.high, one)};
}
L2L_INLINE Words join_halves(Words even, Words odd) {
  return {_mm256_blend_epi16(_mm256_srli_epi32(even.low, 16), odd.low, 0xaa),
          _mm256_blend_epi16(_mm256_srli_epi32(even.high, 16), odd.high, 0xaa)};
}
L2L_INLINE Words join_lower_halves(Words even, Words odd) {
  return {_mm256_blend_epi16(even.low, _mm256_slli_epi32(odd.low, 16), 0xaa),
          _mm256_blend_epi16(even.high, _mm256_slli_epi32(odd.high, 16), 0xaa)};
}
L2L_INLINE Words min(Words a, Words b) { return {_mm256_min_epu32(a.low, b.low), _mm256_min_epu32(a.high, b.high)}; }
L2L_INLINE Words max(Words a, Words b) { return {_mm256_max_epu32(a.low, b.low), _mm256_max_epu32(a.high, b.high)}; }

struct Squares;

struct Pack {
  using Words = avx2::Words;
  using Squares = avx2::Squares;
  __m256 low, high;

  static L2L_INLINE Pack all(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
  static L2L_INLINE Pack load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
  static L2L_INLINE Pack load_f16(const std::uint16_t* from) {
    return {_mm256_cvtph_ps(Words::eight(from)), _mm256_cvtph_ps(Words::eight(from + 8))};
  }
  L2L_INLINE void store(float* to) const {
    _mm256_storeu_ps(to, low);
    _mm256_storeu_ps(to + 8, high);
  }
  L2L_INLINE void store_f16(std::uint16_t* to) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), f16()); }
  L2L_INLINE void stream_f16(std::uint16_t* to) const { _mm256_stream_si256(reinterpret_cast<__m256i*>(to), f16()); }
  static L2L_INLINE void fence() { _mm_sfence(); }

 private:
  L2L_INLINE __m256i f16() const {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return _mm256_set_m128i(_mm256_cvtps_ph(high, kNearest), _mm256_cvtps_ph(low, kNearest));
  }
};

L2L_INLINE Pack operator+(Pack a, Pack b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
L2L_INLINE Pack operator-(Pack a, Pack b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
L2L_INLINE Pack operator*(Pack a, Pack b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
L2L_INLINE Pack operator/(Pack a, Pack b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
L2L_INLINE Pack fused_sum(Pack a, Pack b, Pack c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
L2L_INLINE Pack fused_difference(Pack a, Pack b, Pack c) {
  return {_mm256_fmsub_ps(a.low, b.low, c.low), _mm256_fmsub_ps(a.high, b.high, c.high)};
}
L2L_INLINE Pack sqrt(Pack a) { return {_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)}; }
L2L_INLINE Pack min(Pack a, Pack b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
L2L_INLINE Pack max(Pack a, Pack b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
L2L_INLINE void part_pairs(Pack& first, Pack& second) {
  const Pack a = first, b = second;
  const auto even = [](__m256 x, __m256 y) __attribute__((always_inline)) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(x, y, 0x88)), 0xd8));
  };
  const auto odd = [](__m256 x, __m256 y) __attribute__((always_inline)) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(x, y, 0xdd)), 0xd8));
  };
  first = {even(a.low, a.high), even(b.low, b.high)};
  second = {odd(a.low, a.high), odd(b.low, b.high)};
}
L2L_INLINE void join_pairs(Pack& even, Pack& odd) {
  const Pack a = even, b = odd;
  const auto low = [](__m256 x, __m256 y) __attribute__((always_inline)) {
    return _mm256_permute2f128_ps(_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y), 0x20);
  };
  const auto high = [](__m256 x, __m256 y) __attribute__((always_inline)) {
    return _mm256_permute2f128_ps(_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y), 0x31);
  };
  even = {low(a.low, b.low), high(a.low, b.low)};
  odd = {low(a.high, b.high), high(a.high, b.high)};
}
L2L_INLINE Words bits(Pack a) { return {_mm256_castps_si256(a.low), _mm256_castps_si256(a.high)}; }
L2L_INLINE Pack from_bits(Words a) { return {_mm256_castsi256_ps(a.low), _mm256_castsi256_ps(a.high)}; }

struct Squares {
  __m256d lane[4];

  static L2L_INLINE Squares load(const double* from) {
    return {{_mm256_loadu_pd(from), _mm256_loadu_pd(from + 4), _mm256_loadu_pd(from + 8), _mm256_loadu_pd(from + 12)}};
  }
  L2L_INLINE void store(double* to) const {
    for (int i = 0; i < 4; ++i) _mm256_storeu_pd(to + 4 * i, lane[i]);
  }
  L2L_INLINE void add(Pack a) {
    add(0, _mm256_castps256_ps128(a.low));
    add(1, _mm256_extractf128_ps(a.low, 1));
    add(2, _mm256_castps256_ps128(a.high));
    add(3, _mm256_extractf128_ps(a.high, 1));
  }

 private:
  L2L_INLINE void add(int i, __m128 values) {
    const __m256d wide = _mm256_cvtps_pd(values);
    lane[i] = _mm256_fmadd_pd(wide, wide, lane[i]);  // the square of an fp32 number is exact in double
  }
};

}  // namespace l2l::optimizers::avx2

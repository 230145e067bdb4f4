// Sixteen lanes in one AVX-512 register (x86-64-v4). The operations are documented in pack_portable.h. Immutable.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define L2L_INLINE inline __attribute__((always_inline))

namespace l2l::optimizers::avx512 {

struct Words {
  __m512i value;

  static L2L_INLINE Words all(std::uint32_t value) { return {_mm512_set1_epi32(static_cast<int>(value))}; }
  static L2L_INLINE Words ramp() { return {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)}; }
  static L2L_INLINE Words load(const void* from) { return {_mm512_loadu_si512(from)}; }
  L2L_INLINE void store(void* to) const { _mm512_storeu_si512(to, value); }
  static L2L_INLINE Words load_u16(const std::uint16_t* from) { return {_mm512_cvtepu16_epi32(halves(from))}; }
  static L2L_INLINE Words load_i16(const std::uint16_t* from) { return {_mm512_cvtepi16_epi32(halves(from))}; }
  static L2L_INLINE Words load_u8(const std::uint8_t* from) { return {_mm512_cvtepu8_epi32(bytes(from))}; }
  static L2L_INLINE Words load_byte_pairs(const std::uint8_t* from) {
    return {_mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
  }
  L2L_INLINE void store_byte_pairs(std::uint8_t* to) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi16_epi8(value));
  }
  L2L_INLINE void store_u16(std::uint16_t* to) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(value));
  }
  L2L_INLINE void store_u8(std::uint8_t* to) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(value));
  }

  static L2L_INLINE __m256i halves(const std::uint16_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  static L2L_INLINE __m128i bytes(const std::uint8_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  }
};

L2L_INLINE Words operator+(Words a, Words b) { return {_mm512_add_epi32(a.value, b.value)}; }
L2L_INLINE Words operator-(Words a, Words b) { return {_mm512_sub_epi32(a.value, b.value)}; }
L2L_INLINE Words operator*(Words a, Words b) { return {_mm512_mullo_epi32(a.value, b.value)}; }
L2L_INLINE Words operator&(Words a, Words b) { return {_mm512_and_si512(a.value, b.value)}; }
L2L_INLINE Words operator|(Words a, Words b) { return {_mm512_or_si512(a.value, b.value)}; }
L2L_INLINE Words operator^(Words a, Words b) { return {_mm512_xor_si512(a.value, b.value)}; }
template <int kBits>
L2L_INLINE Words shift_left(Words a) {
  return {_mm512_slli_epi32(a.value, kBits)};
}
template <int kBits>
L2L_INLINE Words shift_right_signed(Words a) {
  return {_mm512_srai_epi32(a.value, kBits)};
}
template <int kBits>
L2L_INLINE Words shift_right(Words a) {
  return {_mm512_srli_epi32(a.value, kBits)};
}
L2L_INLINE Words signed_lower_halves(Words a) { return {_mm512_madd_epi16(a.value, _mm512_set1_epi32(1))}; }
L2L_INLINE Words join_halves(Words even, Words odd) {
  return {_mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(even.value, 16), odd.value)};
}
L2L_INLINE Words join_lower_halves(Words even, Words odd) {
  return {_mm512_mask_blend_epi16(0xaaaaaaaau, even.value, _mm512_slli_epi32(odd.value, 16))};
}
L2L_INLINE Words min(Words a, Words b) { return {_mm512_min_epu32(a.value, b.value)}; }
L2L_INLINE Words max(Words a, Words b) { return {_mm512_max_epu32(a.value, b.value)}; }

struct Squares;

struct Pack {
  using Words = avx512::Words;
  using Squares = avx512::Squares;
  __m512 value;

  static L2L_INLINE Pack all(float value) { return {_mm512_set1_ps(value)}; }
  static L2L_INLINE Pack load(const float* from) { return {_mm512_loadu_ps(from)}; }
  static L2L_INLINE Pack load_f16(const std::uint16_t* from) { return {_mm512_cvtph_ps(Words::halves(from))}; }
  L2L_INLINE void store(float* to) const { _mm512_storeu_ps(to, value); }
  L2L_INLINE void store_f16(std::uint16_t* to) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), f16()); }
  L2L_INLINE void stream_f16(std::uint16_t* to) const { _mm256_stream_si256(reinterpret_cast<__m256i*>(to), f16()); }
  static L2L_INLINE void fence() { _mm_sfence(); }

 private:
  L2L_INLINE __m256i f16() const { return _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
};

L2L_INLINE Pack operator+(Pack a, Pack b) { return {_mm512_add_ps(a.value, b.value)}; }
L2L_INLINE Pack operator-(Pack a, Pack b) { return {_mm512_sub_ps(a.value, b.value)}; }
L2L_INLINE Pack operator*(Pack a, Pack b) { return {_mm512_mul_ps(a.value, b.value)}; }
L2L_INLINE Pack operator/(Pack a, Pack b) { return {_mm512_div_ps(a.value, b.value)}; }
L2L_INLINE Pack fused_sum(Pack a, Pack b, Pack c) { return {_mm512_fmadd_ps(a.value, b.value, c.value)}; }
L2L_INLINE Pack fused_difference(Pack a, Pack b, Pack c) { return {_mm512_fmsub_ps(a.value, b.value, c.value)}; }
L2L_INLINE Pack sqrt(Pack a) { return {_mm512_sqrt_ps(a.value)}; }
L2L_INLINE Pack min(Pack a, Pack b) { return {_mm512_min_ps(a.value, b.value)}; }
L2L_INLINE Pack max(Pack a, Pack b) { return {_mm512_max_ps(a.value, b.value)}; }
L2L_INLINE void part_pairs(Pack& first, Pack& second) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  const __m512 a = first.value, b = second.value;
  first.value = _mm512_permutex2var_ps(a, even, b);
  second.value = _mm512_permutex2var_ps(a, odd, b);
}
L2L_INLINE void join_pairs(Pack& even, Pack& odd) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  const __m512 a = even.value, b = odd.value;
  even.value = _mm512_permutex2var_ps(a, low, b);
  odd.value = _mm512_permutex2var_ps(a, high, b);
}
L2L_INLINE Words bits(Pack a) { return {_mm512_castps_si512(a.value)}; }
L2L_INLINE Pack from_bits(Words a) { return {_mm512_castsi512_ps(a.value)}; }

struct Squares {
  __m512d low, high;

  static L2L_INLINE Squares load(const double* from) { return {_mm512_loadu_pd(from), _mm512_loadu_pd(from + 8)}; }
  L2L_INLINE void store(double* to) const {
    _mm512_storeu_pd(to, low);
    _mm512_storeu_pd(to + 8, high);
  }
  L2L_INLINE void add(Pack a) {
    const __m512d first = _mm512_cvtps_pd(_mm512_castps512_ps256(a.value));
    const __m512d second = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a.value, 1));
    low = _mm512_fmadd_pd(first, first, low);  // the square of an fp32 number is exact in double
    high = _mm512_fmadd_pd(second, second, high);
  }
};

}  // namespace l2l::optimizers::avx512

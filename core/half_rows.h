// Converts arrays of 16-bit floats to fp32 and back, a vector at a time where the build has the instructions (F16C,
// AVX2, AVX-512). The bits are those of to_float(), to_f16() and to_bf16().
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#if defined(__F16C__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace l2l {

inline void to_float(const f16* source, float* destination, std::int64_t count) {
  std::int64_t i = 0;
#if defined(__AVX512F__)  // the masked forms: g++ 12 warns of the others
  for (; i + 16 <= count; i += 16) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + i));
    _mm512_storeu_ps(destination + i, _mm512_maskz_cvtph_ps(0xffff, halves));
  }
#elif defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
    _mm256_storeu_ps(destination + i, _mm256_cvtph_ps(halves));
  }
#endif
#pragma omp simd
  for (std::int64_t k = i; k < count; ++k) destination[k] = to_float(source[k]);
}

inline void to_f16(const float* source, f16* destination, std::int64_t count) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16) {
    const __m256i halves = _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(destination + i), halves);
  }
#elif defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(destination + i), halves);
  }
#endif
#pragma omp simd
  for (std::int64_t k = i; k < count; ++k) destination[k] = to_f16(source[k]);
}

inline void to_float(const bf16* source, float* destination, std::int64_t count) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + i));
    const __m512i words = _mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, halves), 16);
    _mm512_storeu_ps(destination + i, _mm512_castsi512_ps(words));
  }
#elif defined(__AVX2__)
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
    const __m256i words = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
    _mm256_storeu_ps(destination + i, _mm256_castsi256_ps(words));
  }
#endif
#pragma omp simd
  for (std::int64_t k = i; k < count; ++k) destination[k] = to_float(source[k]);
}

inline void to_bf16(const float* source, bf16* destination, std::int64_t count) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16) {
    const __m512 values = _mm512_loadu_ps(source + i);
    const __m512i bits = _mm512_castps_si512(values);
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_set1_epi32(0x8000));
    const __mmask16 nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
    const __m512i kept = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x00400000));
    const __m256i halves = _mm512_maskz_cvtepi32_epi16(0xffff, _mm512_maskz_srli_epi32(0xffff, kept, 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(destination + i), halves);
  }
#elif defined(__AVX2__)
  for (; i + 8 <= count; i += 8) {
    const __m256 values = _mm256_loadu_ps(source + i);
    const __m256i bits = _mm256_castps_si256(values);
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_set1_epi32(0x8000));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
    const __m256i words = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
    const __m256i halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), 0b1000);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(destination + i), _mm256_castsi256_si128(halves));
  }
#endif
#pragma omp simd
  for (std::int64_t k = i; k < count; ++k) destination[k] = to_bf16(source[k]);
}

}  // namespace l2l

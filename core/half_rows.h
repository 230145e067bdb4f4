// Converts arrays of halves to fp32 and back, with the processor's instructions where the build has them (F16C). The
// bits are those of to_float() and to_f16().
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#if defined(__F16C__)
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

}  // namespace l2l

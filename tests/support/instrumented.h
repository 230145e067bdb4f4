// Whether this program is instrumented by a sanitizer, so that its times are not those of the product.
#pragma once

namespace l2l::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kInstrumented = true;
#else
inline constexpr bool kInstrumented = false;
#endif

}  // namespace l2l::testing

// In a test that judges by measured times.
#define L2L_NEEDS_TRUE_TIMES() \
  if (l2l::testing::kInstrumented) GTEST_SKIP() << "instrumented code takes other times"

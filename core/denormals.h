// Flush-to-zero for the duration of a scope.
#pragma once

#if defined(__SSE__)
#include <immintrin.h>
#endif

namespace l2l {

// Thread-bound. The destructor restores the thread's previous setting, which belongs to the embedding program.
class FlushDenormals {
 public:
#if defined(__SSE__)
  // Does nothing where `flush` is false.
  explicit FlushDenormals(bool flush = true) { _mm_setcsr(flush ? saved_ | kFlushToZero | kDenormalsAreZero : saved_); }
  ~FlushDenormals() { _mm_setcsr(saved_); }
#else
  explicit FlushDenormals(bool = true) {}
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

  static constexpr unsigned kFlushToZero = 1u << 15;
  static constexpr unsigned kDenormalsAreZero = 1u << 6;

 private:
#if defined(__SSE__)
  const unsigned saved_ = _mm_getcsr();
#endif
};

}  // namespace l2l

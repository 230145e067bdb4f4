// Flush-to-zero for the duration of a scope.
#pragma once

#include <cstdint>

#if defined(__SSE__)
#include <immintrin.h>
#endif

namespace l2l {

// The control word of the calling thread's floating-point arithmetic, with the bits that make numbers below the normal
// ones zero, as operands and as results. Other processors than x86 and AArch64 have no such bits.
class FloatControl {
 public:
#if defined(__SSE__)  // MXCSR: flush to zero, denormals are zero
  using Word = unsigned;
  static constexpr Word kFlush = 1u << 15 | 1u << 6;
  static Word read() { return _mm_getcsr(); }
  static void write(Word word) { _mm_setcsr(word); }
#elif defined(__aarch64__)  // FPCR: FZ
  using Word = std::uint64_t;
  static constexpr Word kFlush = 1u << 24;
  static Word read() {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void write(Word word) { asm volatile("msr fpcr, %0" : : "r"(word)); }
#else
  using Word = unsigned;
  static constexpr Word kFlush = 0;
  static Word read() { return 0; }
  static void write(Word) {}
#endif
};

// Thread-bound. The destructor restores the thread's previous setting, which belongs to the embedding program.
class FlushDenormals {
 public:
  // Does nothing where `flush` is false.
  explicit FlushDenormals(bool flush = true) {
    if (flush) FloatControl::write(saved_ | FloatControl::kFlush);
  }
  ~FlushDenormals() { FloatControl::write(saved_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  const FloatControl::Word saved_ = FloatControl::read();
};

}  // namespace l2l

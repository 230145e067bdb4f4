// Sixteen lanes in four of the compiler's vectors, for every processor. The reference that the other packs must equal
// bit for bit. All names are in a namespace of this instruction set, so that no code compiled for another one can
// replace theirs (optimizers/kernel_table.h). Immutable.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/dtype.h"

#define L2L_INLINE inline __attribute__((always_inline))

namespace l2l::optimizers::portable {

template <typename T, int kCount>
struct Vector {
  typedef T Type __attribute__((vector_size(kCount * sizeof(T))));
};
using Unsigned = Vector<std::uint32_t, 4>::Type;
using Signed = Vector<std::int32_t, 4>::Type;
using Floats = Vector<float, 4>::Type;
using Doubles = Vector<double, 4>::Type;
using Longs = Vector<std::uint64_t, 4>::Type;
using Halves = Vector<std::uint16_t, 8>::Type;
using Bytes = Vector<std::uint8_t, 16>::Type;

template <typename V>
L2L_INLINE V load_vector(const void* from) {
  V vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}
template <typename V>
L2L_INLINE void store_vector(void* to, V vector) {
  std::memcpy(to, &vector, sizeof vector);
}

// The first or the last elements, twice as wide.
L2L_INLINE Unsigned first_words(Halves v) {
  return (Unsigned)__builtin_shufflevector(v, Halves{}, 0, 8, 1, 9, 2, 10, 3, 11);
}
L2L_INLINE Unsigned last_words(Halves v) {
  return (Unsigned)__builtin_shufflevector(v, Halves{}, 4, 12, 5, 13, 6, 14, 7, 15);
}
L2L_INLINE Halves first_halves(Bytes v) {
  return (Halves)__builtin_shufflevector(v, Bytes{}, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
L2L_INLINE Halves last_halves(Bytes v) {
  return (Halves)__builtin_shufflevector(v, Bytes{}, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
// The low bits of both vectors' elements.
L2L_INLINE Halves low_halves(Unsigned a, Unsigned b) {
  return __builtin_shufflevector((Halves)a, (Halves)b, 0, 2, 4, 6, 8, 10, 12, 14);
}
L2L_INLINE Bytes low_bytes(Halves a, Halves b) {
  return __builtin_shufflevector((Bytes)a, (Bytes)b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}

// Sixteen 32-bit words.
struct Words {
  Unsigned a, b, c, d;

  static L2L_INLINE Words all(std::uint32_t value) {
    const Unsigned four = value - Unsigned{};
    return {four, four, four, four};
  }
  static L2L_INLINE Words ramp() {
    const Unsigned four{0, 1, 2, 3};
    return {four, four + 4, four + 8, four + 12};
  }
  // Sixteen words as they lie.
  static L2L_INLINE Words load(const void* from) {
    const auto* const at = static_cast<const std::uint32_t*>(from);
    return {load_vector<Unsigned>(at), load_vector<Unsigned>(at + 4), load_vector<Unsigned>(at + 8),
            load_vector<Unsigned>(at + 12)};
  }
  L2L_INLINE void store(void* to) const {
    auto* const at = static_cast<std::uint32_t*>(to);
    store_vector(at, a);
    store_vector(at + 4, b);
    store_vector(at + 8, c);
    store_vector(at + 12, d);
  }
  static L2L_INLINE Words load_u16(const std::uint16_t* from) {
    return widened(load_vector<Halves>(from), load_vector<Halves>(from + 8));
  }
  static L2L_INLINE Words load_i16(const std::uint16_t* from);
  static L2L_INLINE Words load_u8(const std::uint8_t* from) {
    const auto bytes = load_vector<Bytes>(from);
    return widened(first_halves(bytes), last_halves(bytes));
  }
  // The low bits of each lane.
  L2L_INLINE void store_u16(std::uint16_t* to) const {
    store_vector(to, low_halves(a, b));
    store_vector(to + 8, low_halves(c, d));
  }
  L2L_INLINE void store_u8(std::uint8_t* to) const { store_vector(to, low_bytes(low_halves(a, b), low_halves(c, d))); }
  // Thirty-two bytes, one in each half of a word: those at even positions in the lower halves.
  static L2L_INLINE Words load_byte_pairs(const std::uint8_t* from) {
    const auto first = load_vector<Bytes>(from), last = load_vector<Bytes>(from + 16);
    return {(Unsigned)first_halves(first), (Unsigned)last_halves(first), (Unsigned)first_halves(last),
            (Unsigned)last_halves(last)};
  }
  // The low bytes of all halves; their high ones are 0.
  L2L_INLINE void store_byte_pairs(std::uint8_t* to) const {
    store_vector(to, low_bytes((Halves)a, (Halves)b));
    store_vector(to + 16, low_bytes((Halves)c, (Halves)d));
  }

 private:
  static L2L_INLINE Words widened(Halves first, Halves last) {
    return {first_words(first), last_words(first), first_words(last), last_words(last)};
  }
};

L2L_INLINE Words operator+(Words x, Words y) { return {x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d}; }
L2L_INLINE Words operator-(Words x, Words y) { return {x.a - y.a, x.b - y.b, x.c - y.c, x.d - y.d}; }
L2L_INLINE Words operator*(Words x, Words y) { return {x.a * y.a, x.b * y.b, x.c * y.c, x.d * y.d}; }
L2L_INLINE Words operator&(Words x, Words y) { return {x.a & y.a, x.b & y.b, x.c & y.c, x.d & y.d}; }
L2L_INLINE Words operator|(Words x, Words y) { return {x.a | y.a, x.b | y.b, x.c | y.c, x.d | y.d}; }
L2L_INLINE Words operator^(Words x, Words y) { return {x.a ^ y.a, x.b ^ y.b, x.c ^ y.c, x.d ^ y.d}; }
template <int kBits>
L2L_INLINE Words shift_left(Words x) {
  return {x.a << kBits, x.b << kBits, x.c << kBits, x.d << kBits};
}
template <int kBits>
L2L_INLINE Unsigned shift_right_signed(Unsigned x) {
  return (Unsigned)((Signed)x >> kBits);
}
template <int kBits>
L2L_INLINE Words shift_right_signed(Words x) {
  return {shift_right_signed<kBits>(x.a), shift_right_signed<kBits>(x.b), shift_right_signed<kBits>(x.c),
          shift_right_signed<kBits>(x.d)};
}
template <int kBits>
L2L_INLINE Words shift_right(Words x) {
  return {x.a >> kBits, x.b >> kBits, x.c >> kBits, x.d >> kBits};
}
// The lower half of each word as a signed number.
L2L_INLINE Words signed_lower_halves(Words x) { return shift_right_signed<16>(shift_left<16>(x)); }
L2L_INLINE Words Words::load_i16(const std::uint16_t* from) { return signed_lower_halves(load_u16(from)); }
// Words with the upper half of `odd` above the upper half of `even`.
L2L_INLINE Words join_halves(Words even, Words odd) { return shift_right<16>(even) | (odd & Words::all(0xffff0000u)); }
// The same with their lower halves.
L2L_INLINE Words join_lower_halves(Words even, Words odd) { return (even & Words::all(0xffffu)) | shift_left<16>(odd); }
template <typename V>
L2L_INLINE V least(V x, V y) {
  return x < y ? x : y;
}
template <typename V>
L2L_INLINE V most(V x, V y) {
  return x > y ? x : y;
}
L2L_INLINE Words min(Words x, Words y) { return {least(x.a, y.a), least(x.b, y.b), least(x.c, y.c), least(x.d, y.d)}; }
L2L_INLINE Words max(Words x, Words y) { return {most(x.a, y.a), most(x.b, y.b), most(x.c, y.c), most(x.d, y.d)}; }

// Functions whose code is long in this set are not inlined.
#define L2L_OUTLINE inline __attribute__((noinline))
L2L_OUTLINE void halves_to_floats(const std::uint16_t* from, float* to) {
  for (int i = 0; i < 16; ++i) to[i] = l2l::to_float(f16{from[i]});
}
L2L_OUTLINE void floats_to_halves(const float* from, std::uint16_t* to) {
  for (int i = 0; i < 16; ++i) to[i] = l2l::to_f16(from[i]).bits;
}

struct Squares;

// Sixteen fp32 numbers; IEEE operations, each rounded by itself.
struct Pack {
  using Words = portable::Words;
  using Squares = portable::Squares;
  Floats a, b, c, d;

  static L2L_INLINE Pack all(float value) {
    const Floats four = value - Floats{};
    return {four, four, four, four};
  }
  static L2L_INLINE Pack load(const float* from) {
    return {load_vector<Floats>(from), load_vector<Floats>(from + 4), load_vector<Floats>(from + 8),
            load_vector<Floats>(from + 12)};
  }
  static L2L_INLINE Pack load_f16(const std::uint16_t* from) {
    float row[16];
    halves_to_floats(from, row);
    return load(row);
  }
  L2L_INLINE void store(float* to) const {
    store_vector(to, a);
    store_vector(to + 4, b);
    store_vector(to + 8, c);
    store_vector(to + 12, d);
  }
  L2L_INLINE void store_f16(std::uint16_t* to) const {
    float row[16];
    store(row);
    floats_to_halves(row, to);
  }
  // Past the caches where the instruction set can; `to` is 32-byte aligned. Ordered before later stores by fence().
  L2L_INLINE void stream_f16(std::uint16_t* to) const { store_f16(to); }
  static L2L_INLINE void fence() {}
};

L2L_INLINE Pack operator+(Pack x, Pack y) { return {x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d}; }
L2L_INLINE Pack operator-(Pack x, Pack y) { return {x.a - y.a, x.b - y.b, x.c - y.c, x.d - y.d}; }
L2L_INLINE Pack operator*(Pack x, Pack y) { return {x.a * y.a, x.b * y.b, x.c * y.c, x.d * y.d}; }
L2L_INLINE Pack operator/(Pack x, Pack y) { return {x.a / y.a, x.b / y.b, x.c / y.c, x.d / y.d}; }
L2L_INLINE Pack min(Pack x, Pack y) { return {least(x.a, y.a), least(x.b, y.b), least(x.c, y.c), least(x.d, y.d)}; }
L2L_INLINE Pack max(Pack x, Pack y) { return {most(x.a, y.a), most(x.b, y.b), most(x.c, y.c), most(x.d, y.d)}; }
L2L_INLINE Floats sqrt(Floats x) {
  return Floats{__builtin_sqrtf(x[0]), __builtin_sqrtf(x[1]), __builtin_sqrtf(x[2]), __builtin_sqrtf(x[3])};
}
L2L_INLINE Pack sqrt(Pack x) { return {sqrt(x.a), sqrt(x.b), sqrt(x.c), sqrt(x.d)}; }
L2L_INLINE Words bits(Pack x) { return {(Unsigned)x.a, (Unsigned)x.b, (Unsigned)x.c, (Unsigned)x.d}; }
L2L_INLINE Pack from_bits(Words x) { return {(Floats)x.a, (Floats)x.b, (Floats)x.c, (Floats)x.d}; }
L2L_INLINE Floats even_floats(Floats x, Floats y) { return __builtin_shufflevector(x, y, 0, 2, 4, 6); }
L2L_INLINE Floats odd_floats(Floats x, Floats y) { return __builtin_shufflevector(x, y, 1, 3, 5, 7); }
L2L_INLINE Floats first_pairs(Floats x, Floats y) { return __builtin_shufflevector(x, y, 0, 4, 1, 5); }
L2L_INLINE Floats last_pairs(Floats x, Floats y) { return __builtin_shufflevector(x, y, 2, 6, 3, 7); }
// Splits two consecutive rows into the elements at even and at odd positions; and back.
L2L_INLINE void part_pairs(Pack& first, Pack& second) {
  const Pack x = first, y = second;
  first = {even_floats(x.a, x.b), even_floats(x.c, x.d), even_floats(y.a, y.b), even_floats(y.c, y.d)};
  second = {odd_floats(x.a, x.b), odd_floats(x.c, x.d), odd_floats(y.a, y.b), odd_floats(y.c, y.d)};
}
L2L_INLINE void join_pairs(Pack& even, Pack& odd) {
  const Pack x = even, y = odd;
  even = {first_pairs(x.a, y.a), last_pairs(x.a, y.a), first_pairs(x.b, y.b), last_pairs(x.b, y.b)};
  odd = {first_pairs(x.c, y.c), last_pairs(x.c, y.c), first_pairs(x.d, y.d), last_pairs(x.d, y.d)};
}

L2L_INLINE Doubles widened(Floats x) { return __builtin_convertvector(x, Doubles); }

// x y + z with one rounding.
#ifdef __FP_FAST_FMAF  // the processor has the instruction
L2L_INLINE Floats fused(Floats x, Floats y, Floats z) {
  return Floats{__builtin_fmaf(x[0], y[0], z[0]), __builtin_fmaf(x[1], y[1], z[1]), __builtin_fmaf(x[2], y[2], z[2]),
                __builtin_fmaf(x[3], y[3], z[3])};
}
L2L_INLINE void fuse(const Pack& x, const Pack& y, Pack& z) {
  z = {fused(x.a, y.a, z.a), fused(x.b, y.b, z.b), fused(x.c, y.c, z.c), fused(x.d, y.d, z.d)};
}
#else
// In double the product is exact, and so is the error of its sum with z (Knuth's TwoSum). A sum that is cut off and has
// its last bit set where something was cut off gives, rounded again, what a single rounding gives (rounding to odd:
// Boldo & Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE
// Transactions on Computers, 2008).
L2L_OUTLINE Floats fused_by_odd(Floats x, Floats y, Floats z) {
  const Doubles product = widened(x) * widened(y), added = widened(z);
  const Doubles sum = product + added, back = sum - product;
  const Longs code = (Longs)sum, error = (Longs)((product - (sum - back)) + (added - back));
  // 0 or 1 by bits, since g++ does not vectorize comparisons of doubles. What is not finite has an error that is NaN.
  const Longs magnitude = error & 0x7fffffffffffffffull, is_nan = (magnitude + 0x000fffffffffffffull) >> 63;
  const Longs inexact = ((magnitude + 0x7fffffffffffffffull) >> 63) - is_nan;
  const Longs beyond = ((error ^ code) >> 63) & inexact;
  return __builtin_convertvector((Doubles)((code - beyond) | inexact), Floats);
}
// The sum rounded to nearest is as good unless it is a tie of floats: 24 bits (fewer in a denormal), a one and zeros.
struct Nearest {
  Floats sum;
  Unsigned may_tie;  // has 28 zeros
};
L2L_INLINE Nearest fused_by_nearest(Floats x, Floats y, Floats z) {
  const Doubles sum = widened(x) * widened(y) + widened(z);
  const Unsigned low = __builtin_convertvector((Longs)sum, Unsigned);
  return {__builtin_convertvector(sum, Floats), (Unsigned)((low & 0x0fffffffu) == 0u)};
}
L2L_INLINE bool any(Unsigned mask) {
  std::uint64_t halves[2];
  store_vector(halves, mask);
  return (halves[0] | halves[1]) != 0;
}
L2L_OUTLINE void fuse(const Pack& x, const Pack& y, Pack& z) {
  const Nearest a = fused_by_nearest(x.a, y.a, z.a), b = fused_by_nearest(x.b, y.b, z.b);
  const Nearest c = fused_by_nearest(x.c, y.c, z.c), d = fused_by_nearest(x.d, y.d, z.d);
  Pack sum = {a.sum, b.sum, c.sum, d.sum};
  if (any(a.may_tie | b.may_tie | c.may_tie | d.may_tie)) {
    if (any(a.may_tie)) sum.a = fused_by_odd(x.a, y.a, z.a);
    if (any(b.may_tie)) sum.b = fused_by_odd(x.b, y.b, z.b);
    if (any(c.may_tie)) sum.c = fused_by_odd(x.c, y.c, z.c);
    if (any(d.may_tie)) sum.d = fused_by_odd(x.d, y.d, z.d);
  }
  z = sum;
}
#endif
// x y + z and x y - z with one rounding: the bits of std::fma, but that of several NaN any may be passed on.
L2L_INLINE Pack fused_sum(const Pack& x, const Pack& y, Pack z) {
  fuse(x, y, z);
  return z;
}
L2L_INLINE Pack fused_difference(const Pack& x, const Pack& y, const Pack& z) {
  return fused_sum(x, y, {-z.a, -z.b, -z.c, -z.d});
}

// Sixteen sums of squares in double, one per lane. The square of an fp32 number is exact in double.
struct Squares {
  Doubles a, b, c, d;

  static L2L_INLINE Squares load(const double* from) {
    return {load_vector<Doubles>(from), load_vector<Doubles>(from + 4), load_vector<Doubles>(from + 8),
            load_vector<Doubles>(from + 12)};
  }
  L2L_INLINE void store(double* to) const {
    store_vector(to, a);
    store_vector(to + 4, b);
    store_vector(to + 8, c);
    store_vector(to + 12, d);
  }
  L2L_INLINE void add(Pack x) {
    a += widened(x.a) * widened(x.a);
    b += widened(x.b) * widened(x.b);
    c += widened(x.c) * widened(x.c);
    d += widened(x.d) * widened(x.d);
  }
};

}  // namespace l2l::optimizers::portable

#undef L2L_OUTLINE

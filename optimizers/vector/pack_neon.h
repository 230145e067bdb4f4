// Sixteen lanes in four NEON registers (AArch64). The operations are documented in pack_portable.h. Immutable.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#define L2L_INLINE inline __attribute__((always_inline))

namespace l2l::optimizers::neon {

// Sixteen lanes, four to a register.
template <typename Register>
struct Four {
  Register part[4];

  // part[k] = function(k)
  template <typename F>
  static L2L_INLINE Four of(const F& function) {
    return {{function(0), function(1), function(2), function(3)}};
  }
};

struct Words : Four<uint32x4_t> {
  L2L_INLINE Words(Four parts) : Four(parts) {}

  static L2L_INLINE Words all(std::uint32_t value) {
    return of([&](int) __attribute__((always_inline)) { return vdupq_n_u32(value); });
  }
  static L2L_INLINE Words ramp() {
    constexpr std::uint32_t kSteps[4] = {0, 1, 2, 3};
    const uint32x4_t steps = vld1q_u32(kSteps);
    return of([&](int k) __attribute__((always_inline)) {
      return vaddq_u32(steps, vdupq_n_u32(4 * static_cast<std::uint32_t>(k)));
    });
  }
  static L2L_INLINE Words load(const void* from) {
    return of([&](int k) __attribute__((always_inline)) {
      return vreinterpretq_u32_u8(vld1q_u8(static_cast<const std::uint8_t*>(from) + 16 * k));
    });
  }
  L2L_INLINE void store(void* to) const {
    for (int k = 0; k < 4; ++k) vst1q_u8(static_cast<std::uint8_t*>(to) + 16 * k, vreinterpretq_u8_u32(part[k]));
  }
  static L2L_INLINE Words load_u16(const std::uint16_t* from) {
    return of([&](int k) __attribute__((always_inline)) { return vmovl_u16(vld1_u16(from + 4 * k)); });
  }
  static L2L_INLINE Words load_i16(const std::uint16_t* from) {
    return of([&](int k) __attribute__((always_inline)) {
      return vreinterpretq_u32_s32(vmovl_s16(vreinterpret_s16_u16(vld1_u16(from + 4 * k))));
    });
  }
  static L2L_INLINE Words load_u8(const std::uint8_t* from) {
    const uint8x16_t all = vld1q_u8(from);
    const uint16x8_t low = vmovl_u8(vget_low_u8(all)), high = vmovl_u8(vget_high_u8(all));
    return Four{{vmovl_u16(vget_low_u16(low)), vmovl_u16(vget_high_u16(low)), vmovl_u16(vget_low_u16(high)),
                 vmovl_u16(vget_high_u16(high))}};
  }
  static L2L_INLINE Words load_byte_pairs(const std::uint8_t* from) {
    return of([&](int k)
                  __attribute__((always_inline)) { return vreinterpretq_u32_u16(vmovl_u8(vld1_u8(from + 8 * k))); });
  }
  L2L_INLINE void store_byte_pairs(std::uint8_t* to) const {
    for (int k = 0; k < 4; ++k) vst1_u8(to + 8 * k, vmovn_u16(vreinterpretq_u16_u32(part[k])));
  }
  L2L_INLINE void store_u16(std::uint16_t* to) const {
    vst1q_u16(to, narrow(0));
    vst1q_u16(to + 8, narrow(2));
  }
  L2L_INLINE void store_u8(std::uint8_t* to) const {
    vst1q_u8(to, vcombine_u8(vmovn_u16(narrow(0)), vmovn_u16(narrow(2))));
  }

 private:
  // The lower halves of two registers.
  L2L_INLINE uint16x8_t narrow(int k) const { return vcombine_u16(vmovn_u32(part[k]), vmovn_u32(part[k + 1])); }
};

#define L2L_EACH(function, a, b) \
  Words::of([&](int k) __attribute__((always_inline)) { return function((a).part[k], (b).part[k]); })
L2L_INLINE Words operator+(Words a, Words b) { return L2L_EACH(vaddq_u32, a, b); }
L2L_INLINE Words operator-(Words a, Words b) { return L2L_EACH(vsubq_u32, a, b); }
L2L_INLINE Words operator*(Words a, Words b) { return L2L_EACH(vmulq_u32, a, b); }
L2L_INLINE Words operator&(Words a, Words b) { return L2L_EACH(vandq_u32, a, b); }
L2L_INLINE Words operator|(Words a, Words b) { return L2L_EACH(vorrq_u32, a, b); }
L2L_INLINE Words operator^(Words a, Words b) { return L2L_EACH(veorq_u32, a, b); }
L2L_INLINE Words min(Words a, Words b) { return L2L_EACH(vminq_u32, a, b); }
L2L_INLINE Words max(Words a, Words b) { return L2L_EACH(vmaxq_u32, a, b); }
#undef L2L_EACH
template <int kBits>
L2L_INLINE Words shift_left(Words a) {
  return Words::of([&](int k) __attribute__((always_inline)) { return vshlq_n_u32(a.part[k], kBits); });
}
template <int kBits>
L2L_INLINE Words shift_right_signed(Words a) {
  return Words::of([&](int k) __attribute__((always_inline)) {
    return vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(a.part[k]), kBits));
  });
}
template <int kBits>
L2L_INLINE Words shift_right(Words a) {
  return Words::of([&](int k) __attribute__((always_inline)) { return vshrq_n_u32(a.part[k], kBits); });
}
L2L_INLINE Words signed_lower_halves(Words a) { return shift_right_signed<16>(shift_left<16>(a)); }
L2L_INLINE Words join_halves(Words even, Words odd) {
  return Words::of([&](int k) __attribute__((always_inline)) { return vsriq_n_u32(odd.part[k], even.part[k], 16); });
}
L2L_INLINE Words join_lower_halves(Words even, Words odd) {
  return Words::of([&](int k) __attribute__((always_inline)) { return vsliq_n_u32(even.part[k], odd.part[k], 16); });
}

struct Squares;

struct Pack : Four<float32x4_t> {
  using Words = neon::Words;
  using Squares = neon::Squares;
  L2L_INLINE Pack(Four parts) : Four(parts) {}

  static L2L_INLINE Pack all(float value) {
    return of([&](int) __attribute__((always_inline)) { return vdupq_n_f32(value); });
  }
  static L2L_INLINE Pack load(const float* from) {
    return of([&](int k) __attribute__((always_inline)) { return vld1q_f32(from + 4 * k); });
  }
  static L2L_INLINE Pack load_f16(const std::uint16_t* from) {
    return of([&](int k) __attribute__((always_inline)) {
      return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + 4 * k)));
    });
  }
  L2L_INLINE void store(float* to) const {
    for (int k = 0; k < 4; ++k) vst1q_f32(to + 4 * k, part[k]);
  }
  L2L_INLINE void store_f16(std::uint16_t* to) const {
    for (int k = 0; k < 4; ++k) vst1_u16(to + 4 * k, vreinterpret_u16_f16(vcvt_f16_f32(part[k])));
  }
  L2L_INLINE void stream_f16(std::uint16_t* to) const { store_f16(to); }
  static L2L_INLINE void fence() {}
};

#define L2L_EACH(function, a, b) \
  Pack::of([&](int k) __attribute__((always_inline)) { return function((a).part[k], (b).part[k]); })
L2L_INLINE Pack operator+(Pack a, Pack b) { return L2L_EACH(vaddq_f32, a, b); }
L2L_INLINE Pack operator-(Pack a, Pack b) { return L2L_EACH(vsubq_f32, a, b); }
L2L_INLINE Pack operator*(Pack a, Pack b) { return L2L_EACH(vmulq_f32, a, b); }
L2L_INLINE Pack operator/(Pack a, Pack b) { return L2L_EACH(vdivq_f32, a, b); }
#undef L2L_EACH
L2L_INLINE Pack fused_sum(Pack a, Pack b, Pack c) {
  return Pack::of([&](int k) __attribute__((always_inline)) { return vfmaq_f32(c.part[k], a.part[k], b.part[k]); });
}
L2L_INLINE Pack fused_difference(Pack a, Pack b, Pack c) {
  return Pack::of([&](int k)
                      __attribute__((always_inline)) { return vfmaq_f32(vnegq_f32(c.part[k]), a.part[k], b.part[k]); });
}
L2L_INLINE Pack sqrt(Pack a) {
  return Pack::of([&](int k) __attribute__((always_inline)) { return vsqrtq_f32(a.part[k]); });
}
// The second operand where one is NaN, unlike the processor's own.
L2L_INLINE Pack min(Pack a, Pack b) {
  return Pack::of([&](int k) __attribute__((always_inline)) {
    return vbslq_f32(vcltq_f32(a.part[k], b.part[k]), a.part[k], b.part[k]);
  });
}
L2L_INLINE Pack max(Pack a, Pack b) {
  return Pack::of([&](int k) __attribute__((always_inline)) {
    return vbslq_f32(vcgtq_f32(a.part[k], b.part[k]), a.part[k], b.part[k]);
  });
}
L2L_INLINE void part_pairs(Pack& first, Pack& second) {
  const Pack a = first, b = second;
  const auto split = [&](auto function) __attribute__((always_inline)) {
    return Pack::Four{{function(a.part[0], a.part[1]), function(a.part[2], a.part[3]), function(b.part[0], b.part[1]),
                       function(b.part[2], b.part[3])}};
  };
  first = split([](float32x4_t x, float32x4_t y) __attribute__((always_inline)) { return vuzp1q_f32(x, y); });
  second = split([](float32x4_t x, float32x4_t y) __attribute__((always_inline)) { return vuzp2q_f32(x, y); });
}
L2L_INLINE void join_pairs(Pack& even, Pack& odd) {
  const Pack a = even, b = odd;
  const auto row = [&](int k) __attribute__((always_inline)) {
    return Pack::Four{{vzip1q_f32(a.part[k], b.part[k]), vzip2q_f32(a.part[k], b.part[k]),
                       vzip1q_f32(a.part[k + 1], b.part[k + 1]), vzip2q_f32(a.part[k + 1], b.part[k + 1])}};
  };
  even = row(0);
  odd = row(2);
}
L2L_INLINE Words bits(Pack a) {
  return Words::of([&](int k) __attribute__((always_inline)) { return vreinterpretq_u32_f32(a.part[k]); });
}
L2L_INLINE Pack from_bits(Words a) {
  return Pack::of([&](int k) __attribute__((always_inline)) { return vreinterpretq_f32_u32(a.part[k]); });
}

struct Squares {
  float64x2_t lane[8];

  static L2L_INLINE Squares load(const double* from) {
    Squares all;
    for (int i = 0; i < 8; ++i) all.lane[i] = vld1q_f64(from + 2 * i);
    return all;
  }
  L2L_INLINE void store(double* to) const {
    for (int i = 0; i < 8; ++i) vst1q_f64(to + 2 * i, lane[i]);
  }
  L2L_INLINE void add(Pack a) {
    for (int k = 0; k < 4; ++k) {
      add(2 * k, vcvt_f64_f32(vget_low_f32(a.part[k])));
      add(2 * k + 1, vcvt_high_f64_f32(a.part[k]));
    }
  }

 private:
  L2L_INLINE void add(int i, float64x2_t wide) {
    lane[i] = vfmaq_f64(lane[i], wide, wide);  // the square of an fp32 number is exact in double
  }
};

}  // namespace l2l::optimizers::neon

// The stand-in of device/kernels/common/ptx.cuh multiplies matrices, copies as late or as early as it may, and notices
// mistakes.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "device/kernels/cudnn_attention.h"
#include "tests/emulation/emulation_fixture.h"
#include "tests/emulation/ptx_kernels.h"
#include "tests/emulation/runtime.h"
#include "tests/emulation/tf32.h"

namespace l2l::test {
namespace {

class Ptx : public EmulationFixture {};

using Square = std::array<float, 256>;

// Small integers, so that sums are exact in any order.
float element(int seed, int i) { return static_cast<float>((i * 37 + seed * 11) % 13 - 6); }

Square expected_product(bool transposed) {
  Square c{};
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) {
      for (int k = 0; k < 16; ++k) {
        c[static_cast<std::size_t>(16 * i + j)] +=
            element(1, 16 * i + k) * element(2, transposed ? 16 * j + k : 16 * k + j);
      }
    }
  }
  return c;
}

Square product(bool transposed, Mistake mistake) {
  std::vector<__nv_bfloat16> a, b;
  for (int i = 0; i < 256; ++i) {
    a.push_back(__float2bfloat16_rn(element(1, i)));
    b.push_back(__float2bfloat16_rn(element(2, i)));
  }
  Square c;
  c.fill(-1e9f);
  launch_product(a.data(), b.data(), c.data(), transposed, mistake);
  cudaDeviceSynchronize();
  return c;
}

TEST_F(Ptx, MultipliesMatrices) {
  for (const emulation::Order order : {0, 1, 2}) {
    emulation::set_order(order);
    for (const bool transposed : {false, true}) {
      EXPECT_EQ(product(transposed, Mistake::none), expected_product(transposed)) << order << transposed;
    }
  }
}

TEST_F(Ptx, AWrongFragmentIsNoticed) {
  for (const bool transposed : {false, true}) {
    EXPECT_NE(product(transposed, Mistake::swapped_fragment), expected_product(transposed));
  }
}

Square tf32_product(const Square& a, const Square& b, Mistake mistake = Mistake::none) {
  Square c;
  c.fill(-1e9f);
  launch_tf32_product(a.data(), b.data(), c.data(), mistake);
  cudaDeviceSynchronize();
  return c;
}

Square elements(int seed) {
  Square square;
  for (int i = 0; i < 256; ++i) square[static_cast<std::size_t>(i)] = element(seed, i);
  return square;
}

TEST_F(Ptx, MultipliesTf32Matrices) {
  for (const emulation::Order order : {0, 1, 2}) {
    emulation::set_order(order);
    EXPECT_EQ(tf32_product(elements(1), elements(2)), expected_product(true)) << order;
  }
  EXPECT_NE(tf32_product(elements(1), elements(2), Mistake::swapped_fragment), expected_product(true));
}

// To 11 significant bits, by another way: std::round takes ties away from zero, too.
double to_tf32_by_scaling(float value) {
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(value), &exponent);
  return std::ldexp(std::round(std::ldexp(mantissa, 11)), exponent - 11);
}

TEST(Tf32, RoundsToNearestTiesAwayFromZero) {
  EXPECT_EQ(emulation::to_tf32(1 + 0x1p-11f), 1 + 0x1p-10f);
  EXPECT_EQ(emulation::to_tf32(-1 - 0x1p-11f), -1 - 0x1p-10f);
  EXPECT_EQ(emulation::to_tf32(1 + 0x1p-11f - 0x1p-23f), 1.0f);
  std::mt19937 random(1);
  for (int i = 0; i < 10000; ++i) {
    // All exponents of normal numbers but the last.
    const std::uint32_t bits = (random() & 0x807FFFFF) | (1 + random() % 253) << 23;
    const float value = std::bit_cast<float>(bits), rounded = emulation::to_tf32(value);
    ASSERT_EQ(static_cast<double>(rounded), to_tf32_by_scaling(value)) << value;
    ASSERT_TRUE(emulation::is_tf32(std::bit_cast<std::uint32_t>(rounded)));
  }
}

TEST(Tf32, KeepsWhatIsNotFinite) {
  using Limits = std::numeric_limits<float>;
  EXPECT_EQ(emulation::to_tf32(Limits::max()), Limits::infinity());
  EXPECT_EQ(emulation::to_tf32(-Limits::infinity()), -Limits::infinity());
  // What CUDA's arithmetic makes: all bits of the mantissa set.
  EXPECT_TRUE(std::isnan(emulation::to_tf32(std::bit_cast<float>(0x7FFFFFFFu))));
}

// One product per element: 22 bits, which fp32 holds.
TEST_F(Ptx, Tf32FactorsAreRoundedAndTheirProductsAreNot) {
  Square a{}, b{};
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < 16; ++i) {
    a[16 * i + 11] = normal(random);
    b[16 * i + 11] = normal(random);
  }
  const Square c = tf32_product(a, b);
  for (std::size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(static_cast<double>(c[i]),
              to_tf32_by_scaling(a[i / 16 * 16 + 11]) * to_tf32_by_scaling(b[i % 16 * 16 + 11]));
  }
}

TEST_F(Ptx, FactorsThatAreNotTf32AreNoticed) {
  Square a{};
  a[5] = 1 + 0x1p-11f;
  tf32_product(a, a, Mistake::none);
  EXPECT_EQ(fault(), "");
  tf32_product(a, a, Mistake::not_rounded);
  EXPECT_NE(fault().find("a factor is not TF32"), std::string::npos);
}

struct Copied {
  alignas(16) std::array<std::byte, 1536> from{}, to{};

  explicit Copied(Mistake mistake, unsigned int blocks = 2) {
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i % 251);
    launch_copy(from.data(), to.data(), blocks, mistake);
  }
  bool right() const {
    for (std::size_t i = 0; i < 1024; ++i) {
      if (to[i] != (i % 512 < 496 ? from[i] : std::byte{0})) return false;
    }
    return true;
  }
};

TEST_F(Ptx, CopiesArriveByTheWait) {
  for (const emulation::Order order : {0, 1, 2, 3}) {
    emulation::set_order(order);
    const Copied copied(Mistake::none);
    EXPECT_EQ(fault(), "");
    EXPECT_TRUE(copied.right()) << order;
  }
}

TEST_F(Ptx, ReadingBeforeTheWaitIsNoticed) {
  emulation::set_order(1);  // at once: the mistake stays hidden
  const Copied early(Mistake::no_wait, 1);
  EXPECT_EQ(fault(), "");
  emulation::set_order(0);
  const Copied late(Mistake::no_wait, 1);
  EXPECT_NE(fault().find("never waited"), std::string::npos);  // waits for the kernel
  EXPECT_EQ(late.to[0], std::byte{0xFF});
}

TEST_F(Ptx, UnalignedAddressesAreNoticed) {
  const Copied copied(Mistake::unaligned);
  EXPECT_NE(fault().find("multiple of 16"), std::string::npos);
}

TEST_F(Ptx, LogsumexpIsTransposedPerSequence) {
  compiler::Value qkv;
  qkv.dtype = DType::bf16;
  qkv.shape = {10, 6 * 8};
  compiler::Attributes attributes;
  attributes.heads = 4;
  attributes.kv_heads = 1;
  attributes.sequence = 5;
  const device::cuda::AttentionProblem problem(qkv, attributes);
  std::vector<float> from(40), to(40, -1);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
  device::cuda::transpose_logsumexp(problem, from.data(), to.data(), nullptr);
  EXPECT_EQ(fault(), "");
  for (std::size_t sequence = 0; sequence < 2; ++sequence) {
    for (std::size_t head = 0; head < 4; ++head) {
      for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(to[(sequence * 4 + head) * 5 + i], from[(sequence * 5 + i) * 4 + head]);
      }
    }
  }
}

}  // namespace
}  // namespace l2l::test

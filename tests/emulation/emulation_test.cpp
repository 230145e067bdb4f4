// The emulation runs kernels as CUDA does, and notices kernels that break its rules.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "device/kernels/common/check.h"
#include "tests/emulation/emulation_fixture.h"
#include "tests/emulation/runtime.h"
#include "tests/emulation/test_kernels.h"

namespace l2l::test {
namespace {

class Emulation : public EmulationFixture {};

std::vector<float> numbers(std::size_t count) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>((i * 7919) % 97) - 48;
  return x;
}

// Sums of three rows of 1000, for several orders of threads.
std::set<std::vector<float>> sums_of_rows(bool with_barrier) {
  const std::vector<float> x = numbers(3000);
  std::set<std::vector<float>> seen;
  for (const emulation::Order order : {0, 1, 2, 3, 4}) {
    emulation::set_order(order);
    std::vector<float> sums(3, -1);
    launch_sum_rows(x.data(), sums.data(), 3, 1000, with_barrier);
    cudaDeviceSynchronize();
    for (float& sum : sums) sum = std::isnan(sum) ? -1e9f : sum;
    seen.insert(sums);
  }
  return seen;
}

TEST_F(Emulation, BlocksReduceInAnyOrder) {
  const std::vector<float> x = numbers(3000);
  std::vector<float> expected(3);
  for (std::size_t row = 0; row < 3; ++row) {
    expected[row] = std::accumulate(x.begin() + static_cast<std::ptrdiff_t>(1000 * row),
                                    x.begin() + static_cast<std::ptrdiff_t>(1000 * row + 1000), 0.0f);
  }
  EXPECT_EQ(sums_of_rows(true), std::set{expected});
  EXPECT_EQ(fault(), "");
}

TEST_F(Emulation, AMissingBarrierShowsInTheOrder) { EXPECT_GT(sums_of_rows(false).size(), 1u); }

TEST_F(Emulation, LanesExchange) {
  std::vector<unsigned int> out(64);
  launch_lanes(out.data());
  ASSERT_EQ(fault(), "");
  for (unsigned int i = 0; i < 64; ++i) {
    const unsigned int lane = i % 32, below = lane == 31 ? 31 : lane + 1, above = lane == 0 ? 0 : lane - 1;
    EXPECT_EQ(out[i], below + 100 * above + 10000 * (lane / 8 * 8 + 5)) << i;
  }
}

TEST_F(Emulation, DynamicSharedMemoryNeedsTheOptIn) {
  std::vector<int> from(64), to(64), expected(64);
  std::iota(from.begin(), from.end(), 0);
  std::iota(expected.rbegin(), expected.rend(), 0);
  launch_reverse(from.data(), to.data(), 64, 256);
  cudaDeviceSynchronize();
  EXPECT_EQ(to, expected);
  EXPECT_THROW(launch_reverse(from.data(), to.data(), 64, 50000), DeviceError);
  allow_reverse(50000);
  launch_reverse(from.data(), to.data(), 64, 50000);
  EXPECT_THROW(allow_reverse(300000), DeviceError);
  EXPECT_THROW(launch_reverse(from.data(), to.data(), 2048, 50000), DeviceError);
  EXPECT_THROW(launch_reverse(from.data(), to.data(), 0, 256), DeviceError);
  EXPECT_EQ(fault(), "");
}

TEST_F(Emulation, DivergenceIsAFault) {
  launch_divergent_barrier();
  EXPECT_NE(fault().find("divergent barrier: 32 of 64 threads have ended"), std::string::npos) << fault();
  EXPECT_THROW(launch_half_a_warp(), DeviceError);  // the fault is sticky
  emulation::clear_error();
  launch_divergent_warp();
  EXPECT_NE(fault().find("lane 31 is in __shfl_sync (4 bytes), lane 0 is in __syncwarp"), std::string::npos) << fault();
  emulation::clear_error();
  launch_half_a_warp();
  EXPECT_NE(fault().find("lane 16 has ended"), std::string::npos) << fault();
}

TEST_F(Emulation, WritingBehindSharedMemoryIsAFault) {
  launch_write_behind();
  EXPECT_NE(fault().find("wrote behind its 128 bytes"), std::string::npos) << fault();
}

TEST_F(Emulation, MisalignedAccessIsAFault) {
  alignas(16) float x[64] = {}, y[128];
  launch_misaligned(x, y);
  EXPECT_NE(fault().find("misaligned, block (0, 0, 0): thread (1, 0, 0)"), std::string::npos) << fault();
  EXPECT_NE(fault().find("not aligned to 16 bytes"), std::string::npos) << fault();
}

TEST_F(Emulation, AnIndexBehindAnArrayIsAFault) {
  int out = 0;
  launch_index_behind_array(&out, 31);
  EXPECT_EQ(fault(), "");
  EXPECT_EQ(out, 1);
  launch_index_behind_array(&out, 32);
  EXPECT_NE(fault().find("index 32 of 'int [32]'"), std::string::npos) << fault();
}

TEST_F(Emulation, SharedMemoryIsPoisonedForEachBlock) {
  std::vector<float> out(8);
  launch_read_unwritten(out.data(), 8);
  ASSERT_EQ(fault(), "");
  for (const float value : out) EXPECT_TRUE(std::isnan(value)) << value;
}

TEST_F(Emulation, BlocksTakeTurnsInTheOrderAsked) {
  int last = -1;
  for (const auto& [order, expected] : {std::pair{0, 99}, {1, 0}}) {
    emulation::set_order(static_cast<emulation::Order>(order));
    launch_index_of_block(&last, 100);
    cudaDeviceSynchronize();
    EXPECT_EQ(last, expected);
  }
}

}  // namespace
}  // namespace l2l::test

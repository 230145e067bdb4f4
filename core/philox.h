// Philox4x32-10, a counter-based random number generator: the n-th number is a pure function of key and counter, so
// recomputation and resumption replay it exactly (law 5). Source: Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011. constexpr, so that CUDA kernels run the same code (nvcc --expt-relaxed-constexpr).
#pragma once

#include <array>
#include <cstdint>

namespace l2l {

// One stream of numbers per (seed, step, layer, microbatch, op), in blocks of four words.
struct RngKey {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t layer = 0;
  std::uint32_t microbatch = 0;  // below 2^24
  std::uint32_t op = 0;          // below 2^8
};

using PhiloxBlock = std::array<std::uint32_t, 4>;

// One block of four independent uniform 32-bit words.
constexpr __attribute__((always_inline)) PhiloxBlock philox(const RngKey& key, std::uint32_t index) {
  constexpr std::uint32_t kMultiply0 = 0xD2511F53u, kMultiply1 = 0xCD9E8D57u;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  std::uint32_t c0 = index, c1 = (key.microbatch << 8) | key.op, c2 = key.layer, c3 = key.step;
  std::uint32_t k0 = static_cast<std::uint32_t>(key.seed), k1 = static_cast<std::uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = static_cast<std::uint64_t>(kMultiply0) * c0;
    const std::uint64_t product1 = static_cast<std::uint64_t>(kMultiply1) * c2;
    c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(product1);
    c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(product0);
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return {c0, c1, c2, c3};
}

// Uniform in [0, 1), with 24 bits.
constexpr float to_uniform(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

}  // namespace l2l

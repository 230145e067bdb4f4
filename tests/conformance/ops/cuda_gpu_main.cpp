// The op suite on a real GPU, or with `--speed [FILTER...]` how fast its kernels are; exit status 77 (a skip) where
// there is none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string_view>

#include "tests/conformance/ops/cuda_support.h"
#include "tests/conformance/ops/speed.h"

namespace l2l::test {

std::vector<int> cuda_variants() {
  const char* const repeats = std::getenv("L2L_OP_REPEATS");
  std::vector<int> variants(static_cast<std::size_t>(std::max(2, repeats ? std::atoi(repeats) : 3)));
  std::iota(variants.begin(), variants.end(), 0);
  return variants;
}

void choose_cuda_variant(int) {}

}  // namespace l2l::test

int main(int argc, char** argv) {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    std::printf("no GPU: %s\n", cudaGetErrorString(status));
    return 77;
  }
  if (argc > 1 && std::string_view(argv[1]) == "--speed") {
    const std::span<const char* const> filters(argv + 2, static_cast<std::size_t>(argc - 2));
    return l2l::test::run_cuda_speed(l2l::test::cuda_speed_cases(), filters, 8192, 0.05) > 0 ? 0 : 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

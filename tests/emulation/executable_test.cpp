// Programs as CUDA graphs: what a failed capture leaves behind.
#include "device/cuda/cuda_executable.h"

#include <gtest/gtest.h>

#include "l2l/errors.h"
#include "tests/emulation/runtime.h"

namespace l2l::test {
namespace {

namespace cuda = device::cuda;

// Fails while it is captured as long as `fails`.
class Moody final : public cuda::Kernel {
 public:
  explicit Moody(const bool& fails) : fails_(fails) {}
  void enqueue(std::span<std::byte* const>, std::byte*, const device::LaunchParameters*,
               cudaStream_t stream) const override {
    if (fails_) throw DeviceError("a launch that the runtime refuses");
    emulation::enqueue(stream, [] {});
  }

 private:
  const bool& fails_;
};

TEST(Executable, GraphsHaveNoMoreNodesThanTheBudgetAndAFailedCaptureCostsNone) {
  constexpr int kGraphs = 2, kKernels = 3, kEach = kKernels + 4, kBudget = kGraphs * kEach + kEach - 1;
  const auto budget = std::make_shared<cuda::GraphBudget>(kBudget);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  bool fails = false;
  {
    compiler::Program program;
    program.graph.name = "moody";
    program.launches.resize(kKernels);
    std::vector<std::unique_ptr<cuda::Kernel>> kernels;
    for (int i = 0; i < kKernels; ++i) kernels.push_back(std::make_unique<Moody>(fails));
    const cuda::CudaExecutable executable(std::move(program), std::move(kernels), budget);
    const auto run = [&](int parameters) {
      static device::LaunchParameters places[2 * kGraphs];
      executable.enqueue({}, &places[parameters], stream);
    };
    run(0);  // kernel by kernel
    fails = true;
    for (int i = 0; i < 3 * kGraphs; ++i) EXPECT_THROW(run(0), DeviceError);
    EXPECT_EQ(*budget, kBudget);
    fails = false;
    for (int i = 0; i < 2 * kGraphs; ++i) run(i);
    EXPECT_EQ(executable.graphs(), static_cast<std::size_t>(kGraphs));
    EXPECT_EQ(*budget, kBudget - kGraphs * kEach);
  }
  EXPECT_EQ(*budget, kBudget);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace l2l::test

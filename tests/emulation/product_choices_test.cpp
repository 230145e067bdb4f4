// Which of the algorithms of the stand-in for cuBLASLt a product uses, and that bits follow it.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "device/kernels/matmul_plan.h"
#include "tests/conformance/ops/cuda_support.h"
#include "tests/emulation/runtime.h"

namespace l2l::test {
namespace {

namespace cuda = device::cuda;

const cuda::MatmulShape kDeep{.m = 24, .n = 40, .k = 136};  // deep enough for all three algorithms

class ProductChoices : public testing::Test {
 protected:
  ProductChoices() { cublasLtCreate(&context_.cublas_lt); }
  ~ProductChoices() override {
    emulation::set_machine({});
    cublasLtDestroy(context_.cublas_lt);
  }

  // y, accumulated onto 1, by a new plan, which then runs on a machine that has no peculiarities.
  std::vector<float> product(cuda::ProductChoices* choices) {
    context_.products = choices;
    const cuda::MatmulPlan plan(context_, kDeep);
    emulation::set_machine({});
    std::vector<float> a(24 * 136), b(136 * 40), y(24 * 40, 1.0f);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::sin(static_cast<float>(i));
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = std::cos(static_cast<float>(3 * i));
    const auto bytes = [](std::vector<float>& values) { return std::as_writable_bytes(std::span(values)); };
    DeviceMemory a_memory(bytes(a).size(), 0), b_memory(bytes(b).size(), 0), y_memory(bytes(y).size(), 0),
        workspace(plan.workspace() + 1, 0);
    a_memory.write(0, bytes(a)), b_memory.write(0, bytes(b)), y_memory.write(0, bytes(y));
    const CudaStream stream;
    plan.enqueue({a_memory.data(), b_memory.data(), y_memory.data()}, true, workspace.data(), stream.get());
    cuda::check(cudaStreamSynchronize(stream.get()), "a product");
    y_memory.read(0, bytes(y));
    return y;
  }
  // The same where the algorithm of this place is the fastest.
  std::vector<float> timed(int fastest, cuda::ProductChoices& choices) {
    emulation::set_machine({.fastest_product = fastest});
    return product(&choices);
  }
  std::vector<float> timed(int fastest) {
    cuda::ProductChoices choices("a GPU");
    return timed(fastest, choices);
  }

  // What `call` makes the kernels' library say, which has a log of its own.
  static std::string said(const std::function<void()>& call) {
    testing::internal::CaptureStderr();
    call();
    return testing::internal::GetCapturedStderr();
  }

  cuda::Context context_;
};

TEST_F(ProductChoices, TheFastestIsTakenAndDecidesTheBits) {
  const std::vector<float> first = timed(0), second = timed(1), third = timed(2);
  EXPECT_NE(first, second);
  EXPECT_NE(first, third);
  EXPECT_NE(second, third);
  EXPECT_EQ(timed(1), second);
  emulation::set_machine({.fastest_product = 1});
  EXPECT_EQ(product(nullptr), first);  // untimed
}

TEST_F(ProductChoices, WhatIsKnownWinsOverTheClock) {
  cuda::ProductChoices choices("a GPU"), alike("a GPU"), other("another GPU");
  const std::vector<float> second = timed(1, choices);
  EXPECT_EQ(timed(2, choices), second);
  ASSERT_EQ(choices.used().size(), 1u);
  ASSERT_EQ(choices.used().at("a GPU").size(), 1u);
  alike.take(choices.used());
  other.take(choices.used());
  EXPECT_TRUE(alike.used().at("a GPU").empty());  // until it is asked for
  EXPECT_EQ(timed(2, alike), second);
  EXPECT_EQ(alike.used(), choices.used());
  EXPECT_EQ(timed(2, other), timed(2));
}

TEST_F(ProductChoices, WhatTheLibraryRefusesIsChosenAnewWithAWarning) {
  cuda::ProductChoices choices("a GPU");
  const std::vector<float> second = timed(1, choices);
  const KernelChoices used = choices.used();
  const auto refused = [&](const std::function<void(std::string&)>& damage) {
    KernelChoices kept = used;
    damage(kept.at("a GPU").begin()->second);
    choices.take(kept);
    const std::string warned = said([&] { EXPECT_EQ(timed(1, choices), second); });
    EXPECT_EQ(choices.used(), used);
    return warned.find("f32 [24, 136] x [136, 40] into f32, aligned to 16 is none that cuBLASLt can use on a GPU") !=
           std::string::npos;
  };
  EXPECT_TRUE(refused([](std::string& algorithm) { std::fill_n(algorithm.begin(), 16, '7'); }));
  EXPECT_TRUE(refused([](std::string& algorithm) { algorithm[5 * 16 + 7] = '2'; }));  // SumOrder: in place
  EXPECT_FALSE(refused([](std::string&) {}));
}

TEST_F(ProductChoices, WithoutMemoryForTimingItIsTheFirst) {
  const std::vector<float> first = timed(0);
  cuda::ProductChoices choices("a GPU");
  emulation::set_machine({.memory = 10'000, .fastest_product = 1});
  const std::string warned = said([&] { EXPECT_EQ(product(&choices), first); });
  EXPECT_NE(warned.find("timing a product needs"), std::string::npos) << warned;
  EXPECT_EQ(choices.used().at("a GPU").size(), 1u);
  EXPECT_NE(timed(1), first);  // it is the memory
}

TEST_F(ProductChoices, AProductWithoutAnAlgorithmIsOurOwnKernels) {
  const std::vector<float> library = product(nullptr);
  emulation::set_machine({.products = false});
  cuda::ProductChoices choices("a GPU");
  const std::vector<float> own = product(&choices);
  EXPECT_TRUE(choices.used().at("a GPU").empty());
  EXPECT_NE(own, library);
  for (std::size_t i = 0; i < own.size(); ++i) ASSERT_NEAR(own[i], library[i], 2e-4f) << i;
  context_.products = nullptr;
  emulation::set_machine({.products = false});
  EXPECT_FALSE(cuda::MatmulPlan::with_bias(context_, kDeep));
}

}  // namespace
}  // namespace l2l::test

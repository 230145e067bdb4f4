// What the estimate of a split block counts, against the operations and bytes of the paper's formulas: b sequences of s
// tokens, h hidden, T devices.
#include "tools/bench/block_times.h"

#include <gtest/gtest.h>

namespace l2l::tools {
namespace {

using compiler::remat::Policy;

constexpr double kB = 4, kS = 256, kH = 512, kT = 4, kHeads = 8;
constexpr double kForever = 1e30;
// GPUs on which one thing alone takes time: seconds are operations, or bytes.
constexpr GpuRates kOfProducts{1, kForever, kForever, kForever, kForever, kForever};
constexpr GpuRates kOfAttention{kForever, 1, 1, kForever, kForever, kForever};
constexpr GpuRates kOfMemory{kForever, kForever, kForever, 1, kForever, kForever};
constexpr GpuRates kOfExchanges{kForever, kForever, kForever, kForever, 1, kForever};

// Of what lies between layers, each device has its own (sequence parallelism), or all.
enum class Rows : std::uint8_t { own, whole };

BlockTimes times(const GpuRates& gpu, Attention attention, Rows rows, Policy policy) {
  const models::TransformerShape shape{.layers = 1,
                                       .hidden = static_cast<std::int64_t>(kH),
                                       .heads = static_cast<std::int64_t>(kHeads),
                                       .intermediate = static_cast<std::int64_t>(4 * kH),
                                       .vocabulary = 64,
                                       .sequence = static_cast<std::int64_t>(kS),
                                       .micro_batch = static_cast<std::int64_t>(kB),
                                       .dropout = 0.1f,
                                       .compute = DType::bf16,
                                       .shard = {static_cast<std::int32_t>(kT), 0},
                                       .whole_rows = rows == Rows::whole};
  return block_times({shape, attention, policy}, gpu);
}

void expect(const BlockTimes& times, double forward, double backward, double VisitTime::*part) {
  EXPECT_NEAR(times.forward.*part / forward, 1, 1e-9);
  EXPECT_NEAR(times.backward.*part / backward, 1, 1e-9);
}

// Appendix A: 72 bsh^2 (1 + s / 6h) of both passes, a third of it forward.
TEST(BlockTimes, OperationsAreThoseOfThePaper) {
  const double products = 24 * kB * kS * kH * kH / kT, attention = 4 * kB * kS * kS * kH / kT;
  for (const Rows rows : {Rows::own, Rows::whole}) {
    const auto of = [&](Policy policy) { return times(kOfProducts, Attention::core, rows, policy); };
    const auto expect_products = [&](Policy policy, double forward, double backward) {
      expect(of(policy), forward, backward, &VisitTime::products);
    };
    const double forward = products + attention, backward = 2 * forward;
    expect_products(Policy::none, forward, backward);
    expect_products(Policy::selective, forward, backward + attention / 2);      // scores; their product with v is kept
    expect_products(Policy::full, forward, backward + forward - products / 3);  // nothing reads the MLP's last product
  }
  for (const Policy policy : {Policy::none, Policy::selective}) {
    expect(times(kOfProducts, Attention::fused, Rows::own, policy), products, 2 * products, &VisitTime::products);
    expect(times(kOfAttention, Attention::fused, Rows::own, policy), attention / 2, attention / 2 * 2.5,
           &VisitTime::attention);  // causal
  }
}

// Section 4.2.2: as many bytes with sequence parallelism as without, but for what is gathered again on the way back.
TEST(BlockTimes, ExchangesAreThoseOfThePaper) {
  const double once = 2 * kB * kS * kH * (kT - 1) / kT;
  const auto expect_exchanges = [&](Rows rows, Policy policy, double forward, double backward) {
    expect(times(kOfExchanges, Attention::core, rows, policy), forward * once, backward * once, &VisitTime::exchanges);
  };
  expect_exchanges(Rows::own, Policy::none, 4, 4 + 2);
  expect_exchanges(Rows::whole, Policy::none, 4, 4);
  expect_exchanges(Rows::own, Policy::full, 4, 4 + 3);  // but for the last sum, which nobody reads
  expect_exchanges(Rows::whole, Policy::full, 4, 4 + 2);
}

// What lies between layers passes through memory: in the forward pass two norms (two arrays, and four where it is fused
// with dropout and a sum), two biases (two each), and a dropout with a sum (three); 2 bytes an element, statistics of
// rows apart.
TEST(BlockTimes, SequenceParallelismDividesWhatLiesBetweenLayers) {
  const auto memory = [](Rows rows) { return times(kOfMemory, Attention::fused, rows, Policy::none).forward.memory; };
  const double arrays = 2 + 2 + 4 + 2 + 3, statistics = 4 * 4;
  const double between = kB * kS * (2 * arrays * kH + statistics);
  EXPECT_NEAR((memory(Rows::whole) - memory(Rows::own)) / (between * (kT - 1) / kT), 1, 1e-9);
}

// Behind softmax and behind dropout, as^2 b elements each are written once and read once more or less.
TEST(BlockTimes, CoreAttentionPassesThroughMemory) {
  const auto of = [](Attention attention, Policy policy) { return times(kOfMemory, attention, Rows::own, policy); };
  const double pass = 2 * kHeads * kS * kS * kB / kT, activations = 2 * kB * kS * kH / kT;
  const BlockTimes none = of(Attention::core, Policy::none), selective = of(Attention::core, Policy::selective);
  EXPECT_NEAR(selective.forward.memory, none.forward.memory, 1);
  EXPECT_NEAR((selective.backward.memory - none.backward.memory) / (3 * pass + 3 * activations), 1, 1e-9);
  EXPECT_GT(none.forward.memory - of(Attention::fused, Policy::none).forward.memory, 4 * pass);
}

TEST(BlockTimes, OfTheTablesGpuEachPolicyCostsWhatItRunsAgain) {
  for (const Rows rows : {Rows::own, Rows::whole}) {
    const auto seconds = [&](Policy policy) { return times(kA100, Attention::core, rows, policy).seconds(); };
    EXPECT_LT(seconds(Policy::none), seconds(Policy::selective));
    EXPECT_LT(seconds(Policy::selective), seconds(Policy::full));
  }
}

}  // namespace
}  // namespace l2l::tools

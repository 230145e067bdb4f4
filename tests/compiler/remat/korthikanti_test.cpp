// Bytes that a GPT-2 block keeps at 16 bits against the formulas of Korthikanti et al., "Reducing Activation
// Recomputation in Large Transformer Models" (2022), section 4: s tokens a sequence, b sequences, h hidden, a heads.
//
//   none       sbh (34 + 5 as/h)     all values
//   selective  34 sbh                all but the core of attention
//   full       2 sbh                 the layer input
//
// Split over t devices (tensor and sequence parallelism, section 4.2), each keeps 1/t of all that. Tensor parallelism
// alone (section 4.2.1, Equation 2) keeps sbh (10 + 24/t): what norms, dropout and residual sums read, and the inputs
// of the first products, are whole on each device.
//
// What our kernels keep otherwise, line by line:
//
//   dropout's masks (sbh behind attention, sbh behind the MLP, as^2 b on probabilities): 0, they are drawn again by key
//   a norm's mean and deviation: 8 sb each, which the paper leaves out as small
//   fused attention instead of its core (2 as^2 b behind softmax, 2 as^2 b behind dropout): 4 asb, a logsumexp a row
#include <gtest/gtest.h>

#include <map>

#include "compiler/autodiff/differentiate.h"
#include "compiler/ir/exchanges.h"
#include "compiler/remat/policy.h"
#include "models/families.h"

namespace l2l::compiler::remat {
namespace {

struct Sizes {
  Bytes s, b, h, a;
  Bytes sbh() const { return s * b * h; }
  Bytes as2b() const { return a * s * s * b; }
  Bytes masks() const { return 2 * sbh(); }
  Bytes statistics() const { return 2 * 8 * s * b; }
};

enum class Rows : bool { shares, whole };

Graph block(const Sizes& n, bool core, Shard shard = {}, Rows rows = Rows::shares) {
  models::TransformerShape shape{.layers = 1,
                                 .hidden = static_cast<std::int64_t>(n.h),
                                 .heads = static_cast<std::int64_t>(n.a),
                                 .intermediate = static_cast<std::int64_t>(4 * n.h),
                                 .vocabulary = 64,
                                 .sequence = static_cast<std::int64_t>(n.s),
                                 .micro_batch = static_cast<std::int64_t>(n.b),
                                 .dropout = 0.1f,
                                 .compute = DType::bf16};
  shape.core_attention = core;
  shape.shard = shard;
  shape.whole_rows = rows == Rows::whole;
  const models::Model model = models::make_gpt2(shape);
  return model.type(model.block(1)).forward;
}

// With the layer input.
Bytes kept(const Graph& forward, Policy policy) {
  return forward.region_bytes(Region::input) +
         compiler::differentiate(forward, values_to_save(forward, policy)).forward.region_bytes(Region::saved);
}

class Korthikanti : public ::testing::TestWithParam<Sizes> {};

TEST_P(Korthikanti, WithCoreAttentionAsInThePaperButForMasks) {
  const Sizes n = GetParam();
  const Graph core = block(n, true);
  EXPECT_EQ(kept(core, Policy::none), 34 * n.sbh() + 5 * n.as2b() - n.masks() - n.as2b() + n.statistics());
  EXPECT_EQ(kept(core, Policy::selective), 34 * n.sbh() - n.masks() + n.statistics());
  EXPECT_EQ(kept(core, Policy::full), 2 * n.sbh());
}

TEST_P(Korthikanti, FusedAttentionHasNoCoreToKeep) {
  const Sizes n = GetParam();
  const Graph fused = block(n, false);
  const Bytes logsumexp = 4 * n.a * n.s * n.b;
  EXPECT_EQ(kept(fused, Policy::none), 34 * n.sbh() - n.masks() + n.statistics() + logsumexp);
  EXPECT_EQ(kept(fused, Policy::selective), kept(fused, Policy::none));
  EXPECT_EQ(kept(fused, Policy::full), 2 * n.sbh());
}

TEST_P(Korthikanti, ADeviceKeepsItsShareOfABlockThatIsSplit) {
  const Sizes n = GetParam();
  const Graph whole = block(n, false);
  for (const std::int32_t t : {2, 4, 8}) {
    if (n.a % static_cast<Bytes>(t) != 0) continue;
    const Graph share = block(n, false, {t, t - 1});
    for (const Policy policy : {Policy::none, Policy::selective, Policy::full}) {
      EXPECT_EQ(kept(share, policy) * static_cast<Bytes>(t), kept(whole, policy)) << t << ", " << name_of(policy);
    }
    EXPECT_LE(kept(share, Policy::min_cut), kept(share, Policy::none)) << t;
  }
}

// Masks and both norms' statistics are whole, too; a logsumexp is that of a device's heads.
TEST_P(Korthikanti, ADeviceThatHasAllRowsKeepsThemWhole) {
  const Sizes n = GetParam();
  for (const Bytes t : {2, 4, 8}) {
    if (n.a % t != 0) continue;
    const Shard shard{static_cast<std::int32_t>(t), 1};
    const Graph all = block(n, false, shard, Rows::whole), own = block(n, false, shard);
    const Bytes logsumexp = 4 * n.a * n.s * n.b / t;
    const Bytes expected = 10 * n.sbh() + 24 * n.sbh() / t - n.masks() + n.statistics() + logsumexp;
    EXPECT_EQ(kept(all, Policy::none), expected) << t;
    EXPECT_EQ(kept(all, Policy::selective), expected) << t;
    EXPECT_EQ(kept(all, Policy::full), 2 * n.sbh()) << t;
    // What sequence parallelism saves.
    const Bytes whole = 10 * n.sbh() - n.masks() + n.statistics();
    EXPECT_EQ((kept(all, Policy::none) - kept(own, Policy::none)) * t, (t - 1) * whole) << t;
  }
}

// What a device gets from the others in the forward pass: four times (t - 1) / t of sbh elements, as much as the two
// all-reduces of tensor parallelism alone, which sums there. The backward pass has the same, and gathers both products'
// inputs again where they were not kept whole.
TEST_P(Korthikanti, DevicesExchangeWhatThePaperSays) {
  const Sizes n = GetParam();
  constexpr Bytes t = 2;
  const Bytes once = (t - 1) * 2 * n.sbh() / t;
  for (const Rows rows : {Rows::shares, Rows::whole}) {
    const Graph share = block(n, false, {t, 0}, rows);
    EXPECT_EQ(received_bytes(share), 4 * once);
    const auto split = compiler::differentiate(share, values_to_save(share, Policy::none));
    EXPECT_EQ(received_bytes(split.forward), 4 * once);
    EXPECT_EQ(received_bytes(split.backward), (4 + (rows == Rows::shares ? 2 : 0)) * once);
  }
}

// The paper's terms, value by value.
TEST_P(Korthikanti, EachValueIsATermOfThePaper) {
  const Sizes n = GetParam();
  const Graph forward = compiler::differentiate(block(n, true), values_to_save(block(n, true), Policy::none)).forward;
  std::map<Bytes, int> found, expected;
  for (const compiler::Value& value : forward.values) {
    if (value.region == Region::saved) ++found[value.bytes()];
  }
  expected[2 * n.sbh()] += 2;   // both norms' results: the products' inputs
  expected[6 * n.sbh()] += 1;   // queries, keys, values
  expected[2 * n.sbh()] += 1;   // what the projection behind attention reads
  expected[2 * n.sbh()] += 1;   // what the second norm reads
  expected[8 * n.sbh()] += 2;   // before and behind gelu
  expected[2 * n.as2b()] += 2;  // behind softmax, behind dropout
  expected[4 * n.s * n.b] += 4;
  EXPECT_EQ(found, expected);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Korthikanti,
                         ::testing::Values(Sizes{1024, 4, 1024, 16}, Sizes{2048, 1, 4096, 32}, Sizes{512, 8, 768, 12},
                                           Sizes{256, 2, 128, 2}));

}  // namespace
}  // namespace l2l::compiler::remat

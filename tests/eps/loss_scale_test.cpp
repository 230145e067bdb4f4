// Scaled gradients: the scale leaves no trace in the bits, and a step that overflows leaves everything as it was.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "l2l/errors.h"
#include "tests/eps/fault_points.h"
#include "tests/eps/toy.h"
#include "tests/support/parameter_state.h"

namespace l2l::eps::testing {
namespace {

constexpr float kOverflow = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

StoreOptions scaled_options() {
  StoreOptions options = toy_options();
  options.wire = options.gradients = DType::f16;
  options.loss_scaling = true;
  return options;
}

struct ScaledToy {
  explicit ScaledToy(const StoreOptions& store_options) : options(store_options) {}
  StoreOptions options;
  TestMemory memory;
  Failure failure;
  ParameterStore store{toy_layout(), options, memory, failure, nullptr};
};

struct Poison {
  LayerIndex layer = -1;
  std::size_t element = 0;
  float value = 0;
};

// Pushes the gradients of step `step` times `factor`.
StepVerdict scaled_step(ScaledToy& toy, std::uint64_t step, const GradientScale& scale, const Poison& poison = {}) {
  const double factor = scale.factor;
  toy.store.begin_step(step, 0.01, scale);
  for (LayerIndex layer = kHead; layer >= kEmbedding; --layer) {
    std::vector<float> gradient = toy_gradient(toy.store.layout(), layer, 0, step, DType::f16);
    for (float& value : gradient) value *= static_cast<float>(factor);
    if (layer == poison.layer) gradient[poison.element] = poison.value;
    push_gradient(toy.store, gradient, toy.options.gradients, layer, 0);
  }
  const StepVerdict verdict = toy.store.finish_step();
  toy.store.complete_updates();
  return verdict;
}

// Masters, moments, wires of all layers at `version`, and update counts.
struct Everything {
  std::vector<float> state;
  std::vector<std::byte> wires;
  std::vector<std::uint64_t> updates;
  bool operator==(const Everything&) const = default;
};

Everything everything(ScaledToy& toy, Version version) {
  Everything all{whole_state(toy.store), {}, {}};
  for (LayerIndex layer = kEmbedding; layer <= kHead; ++layer) {
    const std::vector<std::byte> bytes = leased_bytes(toy.store.pull(layer, version));
    all.wires.insert(all.wires.end(), bytes.begin(), bytes.end());
  }
  for (GroupIndex group = 0; group < 5; ++group) all.updates.push_back(toy.store.update_count(group));
  return all;
}

// A power of two multiplies and divides exactly; also through clipping. The largest leaves the toy's gradients finite.
TEST(LossScale, LeavesNoTraceInTheBits) {
  for (const ClipMode clip : {ClipMode::none, ClipMode::per_layer, ClipMode::global}) {
    StoreOptions options = scaled_options();
    options.clip = clip;
    options.max_norm = 0.7;
    ScaledToy plain(options), scaled(options);
    for (std::uint64_t step = 0; step < 3; ++step) {
      const StepVerdict expected = scaled_step(plain, step, {1, true});
      const StepVerdict verdict = scaled_step(scaled, step, {65536, true});
      EXPECT_EQ(verdict.gradient_norm, expected.gradient_norm);
      EXPECT_FALSE(verdict.skipped);
    }
    EXPECT_EQ(scaled.store.state_hash(), plain.store.state_hash());
  }
}

class Overflow : public ::testing::TestWithParam<Poison> {};

TEST_P(Overflow, LeavesEveryWeightMomentAndCountUnchanged) {
  ScaledToy toy(scaled_options());
  scaled_step(toy, 0, {1024, true});
  const Everything before = everything(toy, 1);
  const StepVerdict verdict = scaled_step(toy, 1, {1024, true}, GetParam());
  EXPECT_TRUE(verdict.skipped);
  EXPECT_FALSE(std::isfinite(verdict.gradient_norm));
  EXPECT_EQ(everything(toy, 2), before);  // as version 2
}

INSTANTIATE_TEST_SUITE_P(Places, Overflow,
                         ::testing::Values(Poison{kEmbedding, 0, kOverflow},
                                           Poison{kFirstBlock, 64 + 17000, -kOverflow},
                                           Poison{kSecondBlock, 19584, kNotANumber}, Poison{kHead, 16, 70000.0f},
                                           Poison{kHead, 128, kOverflow}));

// After a skipped step training goes on as if its gradients had never been: only the step's number has moved.
TEST(LossScale, TrainingGoesOnAfterASkippedStep) {
  ScaledToy toy(scaled_options()), plain(scaled_options());
  scaled_step(toy, 0, {1024, true}, {kFirstBlock, 100, kOverflow});
  toy.store.begin_step(1, 0.01, {512, true});
  for (LayerIndex layer = kHead; layer >= kEmbedding; --layer) {
    std::vector<float> gradient = toy_gradient(toy.store.layout(), layer, 0, 0, DType::f16);
    for (float& value : gradient) value *= 512;
    push_gradient(toy.store, gradient, DType::f16, layer, 0);
  }
  EXPECT_FALSE(toy.store.finish_step().skipped);
  toy.store.complete_updates();
  scaled_step(plain, 0, {512, true});
  EXPECT_EQ(toy.store.state_hash(), plain.store.state_hash());
  EXPECT_EQ(toy.store.update_count(kBlock0), 1u);
}

TEST(LossScale, AnOverflowThatMayNotBeSkippedNamesStepLayerAndScale) {
  ScaledToy toy(scaled_options());
  const Everything before = everything(toy, 0);
  try {
    scaled_step(toy, 0, {1024, false}, {kFirstBlock, 100, kOverflow});
    FAIL() << "the overflow went unnoticed";
  } catch (const NumericError& error) {
    EXPECT_NE(std::string(error.what()).find("step 1: layer h.0: gradient is not finite"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("1024"), std::string::npos) << error.what();
  }
  EXPECT_EQ(whole_state(toy.store), before.state);
}

// Without loss scaling nothing is skipped, whatever the step says.
TEST(LossScale, AnEagerStoreSkipsNothing) {
  StoreOptions options = scaled_options();
  options.loss_scaling = false;
  options.staging_slots = 4;
  ScaledToy toy(options);
  EXPECT_THROW(scaled_step(toy, 0, {1, true}, {kFirstBlock, 100, kOverflow}), NumericError);
}

// Negative control: an overflowed step that is applied all the same.
TEST(LossScale, AnUpdateOnOverflowIsCaught) {
  L2L_NEEDS_FAULT_POINTS();
  ScaledToy toy(scaled_options());
  const Everything before = everything(toy, 0);
  const l2l::testing::ArmedFaultPoint armed("eps.update_on_overflow");
  scaled_step(toy, 0, {1024, true}, {kFirstBlock, 100, kOverflow});
  EXPECT_NE(everything(toy, 1).updates, before.updates);
  EXPECT_NE(everything(toy, 1).wires, before.wires);
}

// A master beyond the largest half is infinite on the wire, and exact beside it.
TEST(HalfWire, IsTheRoundedMaster) {
  ScaledToy toy(scaled_options());
  std::vector<float> master(16), moment1(16), moment2(16);
  read_state(toy.store, kNorm, 0, {master, moment1, moment2});
  master[0] = 70000;
  master[1] = 1 + 0x1p-11f;  // a tie: to even
  master[2] = 1 + 3 * 0x1p-11f;
  master[3] = 0x1p-24f;
  write_state(toy.store, kNorm, 0, {master, moment1, moment2});
  const WeightLease lease = toy.store.pull(kHead, 0);
  const auto* wire = reinterpret_cast<const std::uint16_t*>(lease.parts()[0].data);
  EXPECT_EQ(wire[0], 0x7c00);
  EXPECT_EQ(wire[1], 0x3c00);
  EXPECT_EQ(wire[2], 0x3c02);
  EXPECT_EQ(wire[3], 1);
  std::vector<float> again(16);
  read_state(toy.store, kNorm, 0, {again, moment1, moment2});
  EXPECT_EQ(again, master);
}

}  // namespace
}  // namespace l2l::eps::testing

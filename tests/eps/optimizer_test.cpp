// LAMB and SGD in the parameter server: against float64 over 100 steps, and the same bits however the run is executed.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "l2l/errors.h"
#include "tests/eps/fault_points.h"
#include "tests/eps/toy.h"
#include "tests/optimizers/reference.h"
#include "tests/support/parameter_state.h"

namespace l2l::eps::testing {
namespace {

using optimizers::LambSettings;
using optimizers::Optimizer;
using optimizers::SgdSettings;

Optimizer lamb() {
  LambSettings settings;
  settings.weight_decay = 0.1f;
  return settings;
}

Optimizer sgd() {
  SgdSettings settings;
  settings.weight_decay = 0.1f;
  return settings;
}

// A parameter with its place in each layer that uses its group.
struct Tracked {
  ParameterSpec spec;
  GroupIndex group;
  std::size_t index;
  l2l::testing::ReferenceTensor reference;
  std::vector<std::pair<LayerIndex, std::int64_t>> uses;  // layer, offset of its first element
};

std::vector<float> master_of(const ParameterStore& store, GroupIndex group, std::size_t index) {
  const ParameterSpec& spec = store.layout().groups[static_cast<std::size_t>(group)].parameters[index];
  const std::size_t count = static_cast<std::size_t>(spec.shape.elements());
  std::vector<float> master(count), moment1(count), moment2(store.moments() == 2 ? count : 0);
  read_state(store, group, index, {master, moment1, moment2});
  return master;
}

std::vector<Tracked> track(const ParameterStore& store) {
  std::vector<Tracked> all;
  const ModelLayout& layout = store.layout();
  for (std::size_t group = 0; group < layout.groups.size(); ++group) {
    for (std::size_t i = 0; i < layout.groups[group].parameters.size(); ++i) {
      const ParameterSpec& spec = layout.groups[group].parameters[i];
      const GroupIndex index = static_cast<GroupIndex>(group);
      Tracked tracked{spec, index, i, l2l::testing::ReferenceTensor(master_of(store, index, i), spec.decay), {}};
      for (std::size_t layer = 0; layer < layout.layers.size(); ++layer) {
        for (const LayerPart& part : layout.layers[layer].parts) {
          if (part.group == index) tracked.uses.emplace_back(layer, part.offset + spec.offset);
        }
      }
      all.push_back(std::move(tracked));
    }
  }
  return all;
}

// Largest relative error of any parameter after 100 steps beside the reference.
double error_after_a_hundred_steps(const Optimizer& optimizer, DType wire) {
  StoreOptions options = toy_options();
  options.optimizer = optimizer;
  options.wire = wire;
  options.threads = 2;
  TestMemory memory;
  Failure failure;
  ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  std::vector<Tracked> all = track(store);
  for (std::uint64_t step = 0; step < 100; ++step) {
    const double rate = static_cast<float>(0.01);
    std::vector<std::vector<float>> gradients;
    for (LayerIndex layer = kEmbedding; layer <= kHead; ++layer) {
      gradients.push_back(toy_gradient(store.layout(), layer, 0, step, DType::f32));
    }
    store.begin_step(step, rate);
    for (LayerIndex layer = kHead; layer >= kEmbedding; --layer) {
      push_gradient(store, gradients[static_cast<std::size_t>(layer)], DType::f32, layer, 0);
    }
    store.finish_step();
    for (Tracked& tracked : all) {
      std::vector<double> sum(tracked.reference.w.size());
      for (const auto& [layer, offset] : tracked.uses) {
        for (std::size_t i = 0; i < sum.size(); ++i) {
          sum[i] +=
              static_cast<double>(gradients[static_cast<std::size_t>(layer)][static_cast<std::size_t>(offset) + i]);
        }
      }
      std::visit(
          [&](const auto& settings) {
            if constexpr (requires { reference_step(tracked.reference, sum, settings, rate, 1u); }) {
              reference_step(tracked.reference, sum, settings, rate, static_cast<unsigned>(step + 1));
            }
          },
          optimizer);
    }
  }
  store.complete_updates();
  double largest = 0;
  for (const Tracked& tracked : all) {
    largest = std::max(
        largest, l2l::testing::relative_error(master_of(store, tracked.group, tracked.index), tracked.reference.w));
  }
  return largest;
}

// Parameters longer than a block of the worker pool, some zero at first, with and without decay, one tied.
TEST(Optimizers, FollowFloat64OverAHundredSteps) {
  EXPECT_LT(error_after_a_hundred_steps(lamb(), DType::f32), 1e-5);
  EXPECT_LT(error_after_a_hundred_steps(lamb(), DType::f16), 1e-5);
  EXPECT_LT(error_after_a_hundred_steps(sgd(), DType::bf16), 1e-5);
}

// A bias that begins at zero goes at the learning rate, whatever its norm.
TEST(Optimizers, LambLetsBiasesGrow) {
  StoreOptions options = toy_options();
  options.optimizer = lamb();
  TestMemory memory;
  Failure failure;
  ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  const std::vector<Tracked> all = track(store);
  const auto bias = std::ranges::find_if(all, [](const Tracked& each) {
    return !each.spec.decay && std::ranges::all_of(each.reference.w, [](double value) { return value == 0; });
  });
  ASSERT_NE(bias, all.end());
  for (std::uint64_t step = 0; step < 100; ++step) {
    store.begin_step(step, 0.01);
    for (LayerIndex layer = kHead; layer >= kEmbedding; --layer) {
      const std::vector<float> ones(toy_gradient(store.layout(), layer, 0, step, DType::f32).size(), 1.0f);
      push_gradient(store, ones, DType::f32, layer, 0);
    }
    store.finish_step();
  }
  store.complete_updates();
  for (const float value : master_of(store, bias->group, bias->index)) EXPECT_NEAR(value, -1, 1e-4);
}

// Negative control: a trust ratio of 1 is not LAMB.
TEST(Optimizers, AMissingTrustRatioIsCaught) {
  L2L_NEEDS_FAULT_POINTS();
  const l2l::testing::ArmedFaultPoint armed("eps.no_trust_ratio");
  EXPECT_GT(error_after_a_hundred_steps(lamb(), DType::f32), 0.01);
}

std::uint64_t hash_of(const StoreOptions& options) {
  TestMemory memory;
  Failure failure;
  ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  for (std::uint64_t step = 0; step < 4; ++step) run_step(store, options, step);
  return store.state_hash();
}

TEST(Optimizers, ModesWiresAndThreadsGiveTheSameBits) {
  for (const Optimizer& optimizer : {lamb(), sgd()}) {
    StoreOptions options = toy_options();
    options.optimizer = optimizer;
    const std::uint64_t hash = hash_of(options);
    for (const DType wire : {DType::f32, DType::bf16, DType::f16}) {
      for (const UpdateMode update : {UpdateMode::eager, UpdateMode::after_backward}) {
        for (const int threads : {1, 2, 3, 4}) {
          options.wire = wire;
          options.update = update;
          options.threads = threads;
          EXPECT_EQ(hash_of(options), hash) << threads << " threads";
        }
      }
    }
  }
}

TEST(Optimizers, DifferFromEachOther) {
  StoreOptions options = toy_options();
  const std::uint64_t adamw = hash_of(options);
  options.optimizer = lamb();
  EXPECT_NE(hash_of(options), adamw);
}

// One moment: neither memory nor a hash knows of a second, and asking for it is an error.
TEST(Optimizers, SgdHasOneMoment) {
  StoreOptions options = toy_options();
  options.optimizer = sgd();
  TestMemory memory;
  Failure failure;
  ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  EXPECT_EQ(store.moments(), 1);
  std::vector<float> master(16), moment1(16), moment2(16);
  EXPECT_THROW(read_state(store, kNorm, 0, {master, moment1, moment2}), Error);
  EXPECT_NO_THROW(read_state(store, kNorm, 0, {master, moment1, {}}));
}

// Bytes that an update moves for each element of a state without scales: master and moments are read and written, an
// f16 wire is written. Int8 adds scales.
TEST(Optimizers, TrafficOfAnUpdateIsWhatItReadsAndWrites) {
  const ModelLayout layout = toy_layout();
  Bytes elements = 0;
  for (const GroupSpec& group : layout.groups) {
    for (const ParameterSpec& parameter : group.parameters) elements += static_cast<Bytes>(parameter.shape.elements());
  }
  const auto moved = [&](const Optimizer& optimizer, DType wire, const char* moments) {
    StoreOptions options = toy_options();
    options.optimizer = optimizer;
    options.wire = wire;
    options.moments = optimizers::parse_moment_formats(moments);
    return ParameterStore::bytes_moved(layout, options);
  };
  const Optimizer adamw = toy_options().optimizer;
  // Gradients are read besides, once or twice, whatever the formats; their gaps and the tied table's second use count.
  const Bytes gradients = moved(adamw, DType::f32, "fp32") - elements * 24;
  EXPECT_GE(gradients, elements * 4);
  EXPECT_LE(gradients, elements * 4 * 2 * 2);
  EXPECT_EQ(moved(adamw, DType::bf16, "fp32"), gradients + elements * 24);
  EXPECT_EQ(moved(adamw, DType::f16, "fp32"), gradients + elements * 26);
  EXPECT_EQ(moved(adamw, DType::bf16, "bf16_first"), gradients + elements * 20);
  EXPECT_EQ(moved(adamw, DType::bf16, "bf16"), gradients + elements * 16);
  EXPECT_EQ(moved(sgd(), DType::f32, "fp32"), gradients + elements * 16);
  const Bytes with_scales = moved(adamw, DType::bf16, "int8");
  EXPECT_GT(with_scales, gradients + elements * 12);
  EXPECT_LT(with_scales, gradients + elements * 15);
}

}  // namespace
}  // namespace l2l::eps::testing

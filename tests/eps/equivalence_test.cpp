// Eager and held updates, both wires, any number of threads and any order of arrival give the bits of a plain loop
// (laws 2 and 5 of the design).
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <tuple>

#include "core/workers.h"
#include "tests/eps/fault_points.h"
#include "tests/eps/reference.h"
#include "tests/eps/toy.h"
#include "tests/support/parameter_state.h"

namespace l2l::eps::testing {
namespace {

constexpr std::uint64_t kSteps = 4;

using Gradients = std::vector<std::vector<std::vector<float>>>;  // [layer][device]

Gradients gradients_of(const ModelLayout& layout, const StoreOptions& options, std::uint64_t step) {
  Gradients gradients(layout.layers.size());
  for (std::size_t layer = 0; layer < gradients.size(); ++layer) {
    for (int device = 0; device < options.devices; ++device) {
      gradients[layer].push_back(toy_gradient(layout, static_cast<LayerIndex>(layer), device, step, options.gradients));
    }
  }
  return gradients;
}

// Several threads push all layers of all devices in an order, and with delays, drawn from `seed`.
void push_in_random_order(ParameterStore& store, const StoreOptions& options, const Gradients& gradients,
                          unsigned seed) {
  std::vector<std::pair<LayerIndex, int>> order;
  for (LayerIndex layer = 0; layer < static_cast<LayerIndex>(gradients.size()); ++layer) {
    for (int device = 0; device < options.devices; ++device) order.emplace_back(layer, device);
  }
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  std::atomic<std::size_t> next{0};
  const auto pusher = [&](unsigned thread) {
    std::mt19937 generator(seed + thread);
    for (std::size_t i = next++; i < order.size(); i = next++) {
      const auto [layer, device] = order[i];
      for (unsigned turns = generator() % 50; turns > 0; --turns) std::this_thread::yield();
      push_gradient(store, gradients[static_cast<std::size_t>(layer)][static_cast<std::size_t>(device)],
                    options.gradients, layer, device);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 3; ++thread) threads.emplace_back(pusher, thread);
  for (std::thread& thread : threads) thread.join();
}

// The toy model with its table cut at element 256 for the embedding, and at 16 and 400 for the head.
ModelLayout chunked_layout() {
  ModelLayout layout = toy_layout();
  const std::vector<LayerSpec> blocks(layout.layers.begin() + kFirstBlock, layout.layers.begin() + kHead);
  layout.layers = {{"embedding.0", 200, {{kTable, 0, 0, 256}}, 256},
                   {"embedding.1", 200, {{kTable, 0, 256}, {kPositions, 384}}, 512}};
  layout.layers.insert(layout.layers.end(), blocks.begin(), blocks.end());
  layout.layers.push_back({"head.0", 201, {{kTable, 0, 0, 16}}, 16});
  layout.layers.push_back({"head.1", 201, {{kNorm, 0}, {kTable, 64, 16, 384}}, 448});
  layout.layers.push_back({"head.2", 201, {{kTable, 0, 400}}, 240});
  return layout;
}

// What a layer of `chunked` brings, taken from the gradients of the whole layers.
std::vector<float> chunk_gradient(const ModelLayout& chunked, LayerIndex layer, const Gradients& whole) {
  const LayerSpec& spec = chunked.layers[static_cast<std::size_t>(layer)];
  const bool head = spec.name.rfind("head", 0) == 0, embedding = spec.name.rfind("embedding", 0) == 0;
  const LayerIndex source = head ? kHead : embedding ? kEmbedding : spec.name == "h.0" ? kFirstBlock : kSecondBlock;
  const LayerSpec whole_spec = toy_layout().layers[static_cast<std::size_t>(source)];
  std::vector<float> values(static_cast<std::size_t>(spec.elements));
  for (const LayerPart& part : spec.parts) {
    for (const LayerPart& from : whole_spec.parts) {
      if (from.group != part.group) continue;
      std::copy_n(whole[static_cast<std::size_t>(source)][0].begin() + from.offset + part.begin,
                  chunked.elements_of(part), values.begin() + part.offset);
    }
  }
  return values;
}

TEST(Equivalence, ATableInChunksGivesTheBitsOfAWholeOne) {
  const ModelLayout layout = chunked_layout();
  for (const UpdateMode mode : {UpdateMode::eager, UpdateMode::after_backward}) {
    StoreOptions options = toy_options();
    options.update = mode;
    TestMemory memory, other_memory;
    Failure failure;
    ParameterStore whole(toy_layout(), options, memory, failure, nullptr);
    ParameterStore chunks(layout, options, other_memory, failure, nullptr);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const Gradients gradients = gradients_of(whole.layout(), options, step);
      run_step(whole, options, step);
      chunks.begin_step(step, toy_learning_rate(step));
      for (LayerIndex layer = static_cast<LayerIndex>(layout.layers.size()) - 1; layer >= 0; --layer) {
        push_gradient(chunks, chunk_gradient(layout, layer, gradients), options.gradients, layer, 0);
      }
      chunks.finish_step();
      chunks.complete_updates();
    }
    EXPECT_EQ(whole_state(chunks), whole_state(whole));
    EXPECT_EQ(leased_bytes(chunks.pull(0, kSteps)).size(), 1024u);
  }
}

// The wire of `layer` must be the reference's masters, rounded.
void expect_wire(ParameterStore& store, const StoreOptions& options, const Reference<float>& reference,
                 LayerIndex layer, Version version) {
  const WeightLease lease = store.pull(layer, version);
  const LayerSpec& spec = store.layout().layers[static_cast<std::size_t>(layer)];
  for (std::size_t part = 0; part < spec.parts.size(); ++part) {
    const std::vector<float>& master = reference.master(spec.parts[part].group);
    std::vector<std::byte> expected(master.size() * size_of(options.wire));
    store_as(master, options.wire, expected.data());
    ASSERT_EQ(lease.parts()[part].bytes, expected.size());
    ASSERT_EQ(std::memcmp(lease.parts()[part].data, expected.data(), expected.size()), 0)
        << "layer " << layer << ", part " << part << ", version " << version;
  }
}

struct Outcome {
  std::uint64_t hash = 0;
  std::vector<float> state;
};

// Runs kSteps steps beside the plain loop ("sum, norm, then update"), comparing wires and norms on the way. Held
// updates run while the next step's wires are compared.
Outcome run(const StoreOptions& options, unsigned seed) {
  flush_denormals_to_zero();
  TestMemory memory;
  Failure failure;
  ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  Reference<float> reference(store, options);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    for (LayerIndex layer = kEmbedding; layer <= kHead; ++layer) expect_wire(store, options, reference, layer, step);
    const Gradients gradients = gradients_of(store.layout(), options, step);
    store.begin_step(step, toy_learning_rate(step));
    push_in_random_order(store, options, gradients, seed + static_cast<unsigned>(step));
    const double norm = reference.step(gradients, toy_learning_rate(step));
    EXPECT_NEAR(store.finish_step().gradient_norm, norm, 1e-12 * norm);
  }
  store.complete_updates();
  const std::vector<float> expected = reference.whole_state();
  Outcome outcome{store.state_hash(), whole_state(store)};
  EXPECT_EQ(std::memcmp(outcome.state.data(), expected.data(), expected.size() * sizeof(float)), 0);
  for (GroupIndex group = 0; group < static_cast<GroupIndex>(store.layout().groups.size()); ++group) {
    EXPECT_EQ(store.update_count(group), kSteps);
  }
  return outcome;
}

using Combination = std::tuple<DType, DType, UpdateMode, ClipMode, int>;

class Equivalence : public ::testing::TestWithParam<Combination> {
 protected:
  StoreOptions options(int threads) const {
    StoreOptions options = toy_options();
    std::tie(options.wire, options.gradients, options.update, options.clip, options.devices) = GetParam();
    options.max_norm = 0.7;
    options.threads = threads;
    // One device needs few slots in any order; several that run apart by the whole model need all.
    options.staging_slots = options.devices == 1 ? 1 : 4 * options.devices;
    return options;
  }
};

TEST_P(Equivalence, BitsAreThoseOfAPlainLoop) {
  const Outcome one = run(options(1), 1);
  for (const int threads : {2, 4}) {
    const Outcome more = run(options(threads), 100 * static_cast<unsigned>(threads));
    EXPECT_EQ(more.hash, one.hash) << threads << " threads";
  }
}

const auto kModes = ::testing::Values(UpdateMode::eager, UpdateMode::after_backward);
const auto kClips = ::testing::Values(ClipMode::none, ClipMode::per_layer, ClipMode::global);
const auto kDevices = ::testing::Values(1, 2);

INSTANTIATE_TEST_SUITE_P(All, Equivalence,
                         ::testing::Combine(::testing::Values(DType::f32, DType::bf16, DType::f16),
                                            ::testing::Values(DType::f32, DType::bf16), kModes, kClips, kDevices));
INSTANTIATE_TEST_SUITE_P(Fp16Gradients, Equivalence,
                         ::testing::Combine(::testing::Values(DType::f16), ::testing::Values(DType::f16), kModes,
                                            kClips, kDevices));

TEST(EquivalenceAcross, AnyNumberOfLanesAgrees) {
  for (const ClipMode clip : {ClipMode::per_layer, ClipMode::global}) {  // eager and held
    StoreOptions options = toy_options();
    options.wire = DType::bf16;
    options.clip = clip;
    options.max_norm = 0.7;
    options.devices = 2;
    options.staging_slots = 8;
    const std::uint64_t hash = run(options, 1).hash;
    options.placement.lanes = {{0, 1, {}}, {1, 1, {}}};
    EXPECT_EQ(run(options, 2).hash, hash);
    options.placement.lanes = {{0, 2, {}}, {1, 1, {}}, {2, 1, {}}};
    EXPECT_EQ(run(options, 3).hash, hash);
  }
}
// Sums of three numbers and more depend on their order: this one is of devices, not of arrival.
INSTANTIATE_TEST_SUITE_P(MoreDevices, Equivalence,
                         ::testing::Combine(::testing::Values(DType::bf16), ::testing::Values(DType::f32, DType::bf16),
                                            ::testing::Values(UpdateMode::eager),
                                            ::testing::Values(ClipMode::none, ClipMode::global),
                                            ::testing::Values(3, 8)));

TEST(EquivalenceAcross, WiresAndModesAgree) {
  StoreOptions options = toy_options();
  const std::uint64_t hash = run(options, 1).hash;
  options.wire = DType::bf16;  // the split master is exact
  EXPECT_EQ(run(options, 2).hash, hash);
  options.wire = DType::f16;  // the master lies beside it
  EXPECT_EQ(run(options, 2).hash, hash);
  options.update = UpdateMode::after_backward;
  EXPECT_EQ(run(options, 3).hash, hash);
  options.clip = ClipMode::global;
  options.max_norm = 1e6;  // never reached
  EXPECT_EQ(run(options, 4).hash, hash);
  options.max_norm = 0.7;
  EXPECT_NE(run(options, 5).hash, hash);
  options.update = UpdateMode::eager;  // each layer's own norm needs no hold
  options.clip = ClipMode::per_layer;
  EXPECT_FALSE(options.held());
  const std::uint64_t clipped = run(options, 6).hash;
  EXPECT_NE(clipped, hash);
  options.update = UpdateMode::after_backward;
  EXPECT_EQ(run(options, 7).hash, clipped);
}

TEST(EquivalenceAcross, ArithmeticFollowsDoubles) {
  StoreOptions options = toy_options();
  options.clip = ClipMode::global;
  options.max_norm = 0.7;
  options.devices = 2;
  TestMemory memory;
  Failure failure;
  ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  Reference<double> reference(store, options);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    store.begin_step(step, toy_learning_rate(step));
    push_all(store, options, step);
    const double norm = reference.step(gradients_of(store.layout(), options, step), toy_learning_rate(step));
    EXPECT_NEAR(store.finish_step().gradient_norm, norm, 1e-6 * norm);
    store.complete_updates();
  }
  const std::vector<float> state = whole_state(store);
  const std::vector<double> expected = reference.whole_state();
  for (std::size_t i = 0; i < state.size(); ++i) ASSERT_NEAR(state[i], expected[i], 2e-6) << i;
}

// fp32 sums depend on their order: devices first, then the uses of a tied table.
TEST(EquivalenceAcross, TiedTableIsSummedUseByUse) {
  StoreOptions options = toy_options();
  options.devices = 2;
  options.staging_slots = 8;
  TestMemory memory;
  Failure failure;
  ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  // Offsets of the table: 128 in the head, 0 in the embedding. fp32: (2^24 + 1) + (1 - 2^24) = 1; one after the other:
  // ((2^24 + 1) + 1) - 2^24 = 0, and from the embedding on ((1 - 2^24) + 2^24) + 1 = 2.
  const auto value = [](LayerIndex layer, int device) {
    if (layer == kHead) return device == 0 ? 0x1p24f : 1.0f;
    return device == 0 ? 1.0f : -0x1p24f;
  };
  store.begin_step(0, 0.01);
  for (LayerIndex layer = kEmbedding; layer <= kHead; ++layer) {
    for (int device = 1; device >= 0; --device) {
      std::vector<float> gradient(
          static_cast<std::size_t>(store.layout().layers[static_cast<std::size_t>(layer)].elements));
      if (layer == kHead || layer == kEmbedding) gradient[layer == kHead ? 128 : 0] = value(layer, device);
      push_gradient(store, gradient, DType::f32, layer, device);
    }
  }
  EXPECT_EQ(store.finish_step().gradient_norm, 1);
  store.complete_updates();
}

// What `devices` leave, where each is given the sums of some of eight: `of[d]`, which are added from the first on.
std::uint64_t hash_of_sums(const std::vector<std::vector<std::size_t>>& of) {
  flush_denormals_to_zero();
  StoreOptions options = toy_options();
  options.clip = ClipMode::global;
  options.max_norm = 0.7;
  options.devices = 8;
  options.device_squares = false;
  TestMemory memory;
  Failure failure;
  const ParameterStore eight(toy_layout(), options, memory, failure, nullptr);
  StoreOptions fewer = options;
  fewer.devices = static_cast<int>(of.size());
  fewer.staging_slots = 3 * fewer.devices;
  ParameterStore store(toy_layout(), fewer, memory, failure, nullptr);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const Gradients gradients = gradients_of(eight.layout(), options, step);
    store.begin_step(step, toy_learning_rate(step));
    for (LayerIndex layer = kHead; layer >= kEmbedding; --layer) {
      const std::vector<std::vector<float>>& of_layer = gradients[static_cast<std::size_t>(layer)];
      for (std::size_t d = 0; d < of.size(); ++d) {
        std::vector<float> sum = of_layer[of[d].front()];
        for (std::size_t k = 1; k < of[d].size(); ++k) {
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += of_layer[of[d][k]][i];
        }
        push_gradient(store, sum, DType::f32, layer, static_cast<int>(d));
      }
    }
    store.finish_step();
  }
  store.complete_updates();
  return store.state_hash();
}

TEST(EquivalenceAcross, DevicesMayAddTwoByTwoFirst) {
  const std::uint64_t hash = hash_of_sums({{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}});
  EXPECT_EQ(hash_of_sums({{0, 1}, {2, 3}, {4, 5}, {6, 7}}), hash);
  EXPECT_NE(hash_of_sums({{0, 2}, {1, 3}, {4, 5}, {6, 7}}), hash);
  EXPECT_NE(hash_of_sums({{0, 1, 2, 3}, {4, 5, 6, 7}}), hash) << "one after the other";
}

// Squares of 1e-20 are denormal: zero, whichever thread computes them.
TEST(EquivalenceAcross, DenormalMomentsAreFlushedOnEveryThread) {
  StoreOptions options = toy_options();
  options.threads = 4;
  TestMemory memory;
  Failure failure;
  ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  store.begin_step(0, 0.01);
  for (LayerIndex layer = kHead; layer >= kEmbedding; --layer) {
    const std::size_t elements =
        static_cast<std::size_t>(store.layout().layers[static_cast<std::size_t>(layer)].elements);
    push_gradient(store, std::vector<float>(elements, 1e-20f), DType::f32, layer, 0);
  }
  store.finish_step();
  store.complete_updates();
  std::vector<float> master(19500), moment1(19500), moment2(19500);
  read_state(store, kBlock0, 1, {master, moment1, moment2});
  EXPECT_NEAR(moment1[0], 1e-21, 1e-27);
  EXPECT_EQ(moment2, std::vector<float>(19500));
}

// Negative controls: each breaks one thing, and the comparison with the plain loop must notice.
class EquivalenceNegativeControl : public ::testing::Test {
 protected:
  static StoreOptions options() {
    StoreOptions options = toy_options();
    options.clip = ClipMode::global;
    options.max_norm = 0.7;
    options.devices = 3;
    return options;
  }
  // Steps in the order of `places`: what device d computed is pushed as that of device places[d].
  static std::vector<float> state_of_store(const std::vector<int>& places, double& norm) {
    flush_denormals_to_zero();
    TestMemory memory;
    Failure failure;
    ParameterStore store(toy_layout(), options(), memory, failure, nullptr);
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const Gradients gradients = gradients_of(store.layout(), options(), step);
      store.begin_step(step, toy_learning_rate(step));
      for (LayerIndex layer = kHead; layer >= kEmbedding; --layer) {
        for (std::size_t d = 0; d < places.size(); ++d) {
          push_gradient(store, gradients[static_cast<std::size_t>(layer)][d], DType::f32, layer, places[d]);
        }
      }
      norm = store.finish_step().gradient_norm;
    }
    store.complete_updates();
    return whole_state(store);
  }
  static std::vector<float> state_of_loop(double& norm) {
    flush_denormals_to_zero();
    TestMemory memory;
    Failure failure;
    const ParameterStore store(toy_layout(), options(), memory, failure, nullptr);
    Reference<float> reference(store, options());
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      norm = reference.step(gradients_of(store.layout(), options(), step), toy_learning_rate(step));
    }
    return reference.whole_state();
  }
};

TEST_F(EquivalenceNegativeControl, ASumInTheOrderOfArrivalIsSeen) {
  double norm = 0, expected_norm = 0;
  const std::vector<float> expected = state_of_loop(expected_norm);
  EXPECT_EQ(state_of_store({0, 1, 2}, norm), expected);
  EXPECT_NE(state_of_store({2, 1, 0}, norm), expected);
  EXPECT_NEAR(norm, expected_norm, 1e-6 * expected_norm);  // rounding alone tells them apart
}

TEST_F(EquivalenceNegativeControl, LostAndDoubleUpdatesAndAWrongFactorAreSeen) {
  L2L_NEEDS_FAULT_POINTS();
  double norm = 0, expected_norm = 0;
  const std::vector<float> expected = state_of_loop(expected_norm);
  for (const char* const fault : {"eps.lost_contribution", "eps.lost_update", "eps.double_update", "eps.early_norm"}) {
    const l2l::testing::ArmedFaultPoint armed(fault);
    EXPECT_NE(state_of_store({0, 1, 2}, norm), expected) << fault;
  }
  EXPECT_EQ(state_of_store({0, 1, 2}, norm), expected);
  EXPECT_NEAR(norm, expected_norm, 1e-12 * expected_norm);
}

// Negative control: an update that miscounts must not pass for the plain loop's.
TEST(EquivalenceAcross, WrongBiasCorrectionIsSeen) {
  L2L_NEEDS_FAULT_POINTS();
  const StoreOptions options = toy_options();
  const auto hash = [&] {
    TestMemory memory;
    Failure failure;
    ParameterStore store(toy_layout(), options, memory, failure, nullptr);
    for (std::uint64_t step = 0; step < 2; ++step) run_step(store, options, step);
    return store.state_hash();
  };
  const std::uint64_t right = hash();
  {
    const l2l::testing::ArmedFaultPoint armed("eps.skip_correction");
    EXPECT_NE(hash(), right);
  }
  EXPECT_EQ(hash(), right);
}

}  // namespace
}  // namespace l2l::eps::testing

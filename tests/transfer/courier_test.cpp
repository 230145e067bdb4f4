// Ranks that train together, each with a shard of every group, have the bits of one rank with all their devices.
#include "transfer/courier.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "collectives/threads.h"
#include "core/workers.h"
#include "eps/exchange_bytes.h"
#include "tests/collectives/altered.h"
#include "tests/eps/fault_points.h"
#include "tests/eps/toy.h"

namespace l2l::transfer {
namespace {

using collectives::Collectives;
using collectives::Traffic;
using collectives::Transport;
using collectives::testing::Alter;
using collectives::testing::Altered;
using eps::ExchangeKind;
using eps::ParameterStore;
using eps::Rank;
using eps::StatePart;
using eps::StoreOptions;
using testing::ArmedFaultPoint;
using namespace eps::testing;

constexpr std::uint64_t kSteps = 4;

// What a run is compared by.
struct Outcome {
  std::vector<float> state;                   // master and moments of all parameters
  std::vector<std::vector<std::byte>> wires;  // of each layer
  std::vector<double> norms;                  // of each step
  std::vector<bool> skipped;
  bool operator==(const Outcome&) const = default;
};

// The elements that the rank has, at their places in `state`; the rest is left as it is.
void add_state(const ParameterStore& store, std::vector<float>& state) {
  std::size_t at = 0;
  for (std::size_t group = 0; group < store.layout().groups.size(); ++group) {
    const std::vector<ParameterSpec>& parameters = store.layout().groups[group].parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto [begin, end] = store.owned(static_cast<GroupIndex>(group), i);
      const auto elements = static_cast<std::size_t>(parameters[i].shape.elements());
      for (const StatePart part : {StatePart::master, StatePart::moment1, StatePart::moment2}) {
        if (part == StatePart::moment2 && store.moments() < 2) continue;
        if (state.size() < at + elements) state.resize(at + elements, NAN);
        const std::span<float> own(state.data() + at + begin, static_cast<std::size_t>(end - begin));
        store.read(static_cast<GroupIndex>(group), i, part, begin, own);
        at += elements;
      }
    }
  }
}

// A rank's part of the run; `overflows`: the step whose gradients are not finite, on the last device of all.
void run_steps(ParameterStore& store, const StoreOptions& options, int overflows, Outcome& outcome) {
  flush_denormals_to_zero();
  const int last = options.rank.count * options.devices - 1;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    store.begin_step(step, toy_learning_rate(step), {options.loss_scaling ? 4.0 : 1.0, options.loss_scaling});
    for (LayerIndex layer = kHead; layer >= kEmbedding; --layer) {
      for (int device = 0; device < options.devices; ++device) {
        const int of_all = options.rank.index * options.devices + device;
        std::vector<float> gradient = toy_gradient(store.layout(), layer, of_all, step, options.gradients);
        if (static_cast<int>(step) == overflows && layer == kFirstBlock && of_all == last) gradient[100] = INFINITY;
        push_gradient(store, gradient, options.gradients, layer, device);
      }
    }
    const eps::StepVerdict verdict = store.finish_step();
    outcome.norms.push_back(std::isfinite(verdict.gradient_norm) ? verdict.gradient_norm : -1);
    outcome.skipped.push_back(verdict.skipped);
  }
  store.complete_updates();
  for (LayerIndex layer = kEmbedding; layer <= kHead; ++layer) {
    outcome.wires.push_back(leased_bytes(store.pull(layer, kSteps)));
  }
}

struct Result {
  Outcome outcome;
  bool ranks_agree = true;                                        // on wires and verdicts
  Bytes memory = 0;                                               // of all ranks
  std::vector<std::array<Traffic, eps::kExchangeKinds>> traffic;  // of each rank, by kind
};

// `options`: of a run of one rank; its devices are shared by `ranks` ranks.
Result run_ranks(StoreOptions options, int ranks, int overflows = -1, const Alter& alter = {},
                 const ModelLayout& layout = toy_layout()) {
  options.devices /= ranks;
  options.staging_slots = std::max(1, options.staging_slots / ranks);
  std::vector<std::unique_ptr<Transport>> transports = collectives::connected_threads(ranks);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  Result run;
  run.traffic.resize(static_cast<std::size_t>(ranks));
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    auto& transport = transports[static_cast<std::size_t>(rank)];
    if (alter) transport = std::make_unique<Altered>(std::move(transport), alter);
    threads.emplace_back([&, rank] {
      StoreOptions own = options;
      own.rank = {rank, ranks};
      TestMemory memory;
      Failure failure;
      Collectives peers(std::move(transports[static_cast<std::size_t>(rank)]));
      ParameterStore store(layout, own, memory, failure, nullptr);
      const eps::StoreBytes needed = ParameterStore::bytes_needed(layout, own);
      EXPECT_EQ(memory.total(), needed.from_source());
      Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      {
        Courier courier(store, peers, failure);
        run_steps(store, own, overflows, outcome);
        for (const ExchangeKind kind :
             {ExchangeKind::gradients, ExchangeKind::squares, ExchangeKind::wire, ExchangeKind::visit}) {
          run.traffic[static_cast<std::size_t>(rank)][static_cast<std::size_t>(kind)] = courier.traffic(kind);
        }
      }
      if (overflows < 0) {
        EXPECT_EQ(store.work().bytes, kSteps * ParameterStore::bytes_moved(store.layout(), own));
      }
      const std::lock_guard lock(mutex);
      add_state(store, run.outcome.state);
      run.memory += needed.state;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Outcome& outcome : outcomes) run.ranks_agree = run.ranks_agree && outcome == outcomes[0];
  std::vector<float> state = std::move(run.outcome.state);
  run.outcome = outcomes[0];
  run.outcome.state = std::move(state);
  return run;
}

Outcome run_alone(const StoreOptions& options, int overflows = -1, const ModelLayout& layout = toy_layout()) {
  TestMemory memory;
  Failure failure;
  ParameterStore store(layout, options, memory, failure, nullptr);
  Outcome outcome;
  run_steps(store, options, overflows, outcome);
  add_state(store, outcome.state);
  return outcome;
}

void expect_same(StoreOptions options, const std::string& what, int overflows = -1) {
  const Outcome alone = run_alone(options, overflows);
  for (const int ranks : {2, 3, 4}) {
    if (options.devices % ranks != 0) continue;
    for (const bool shard_wire : {false, true}) {
      options.shard_wire = shard_wire;
      const std::string where = what + ", " + std::to_string(ranks) + (shard_wire ? " ranks, sharded" : " ranks");
      const Result run = run_ranks(options, ranks, overflows);
      EXPECT_TRUE(run.ranks_agree) << where;
      EXPECT_EQ(run.outcome.norms, alone.norms) << where;
      EXPECT_EQ(run.outcome.skipped, alone.skipped) << where;
      EXPECT_EQ(run.outcome.wires, alone.wires) << where;
      EXPECT_TRUE(run.outcome.state == alone.state) << where;
    }
  }
}

StoreOptions options_of(DType wire, DType gradients, int devices = 4) {
  StoreOptions options = toy_options();
  options.wire = wire;
  options.gradients = gradients;
  options.devices = devices;
  options.staging_slots = 2 * devices;
  options.max_norm = 0.7;
  return options;
}

TEST(Courier, RanksHaveTheBitsOfOneWithAllDevices) {
  for (const DType wire : {DType::f32, DType::bf16, DType::f16}) {
    for (const DType gradients : {DType::f32, DType::bf16}) {
      for (const eps::ClipMode clip : {eps::ClipMode::none, eps::ClipMode::per_layer, eps::ClipMode::global}) {
        StoreOptions options = options_of(wire, gradients);
        options.clip = clip;
        expect_same(options, std::string(name_of(wire)) + " " + std::string(name_of(gradients)) + " clip " +
                                 std::to_string(static_cast<int>(clip)));
      }
    }
  }
}

TEST(Courier, AnyNumberOfRanksHasThem) {
  for (const int devices : {3, 6, 8}) {
    for (const eps::UpdateMode update : {eps::UpdateMode::eager, eps::UpdateMode::after_backward}) {
      StoreOptions options = options_of(DType::bf16, DType::bf16, devices);
      options.update = update;
      options.threads = 2;
      expect_same(options, std::to_string(devices) + " devices");
    }
  }
}

TEST(Courier, EveryOptimizerHasThem) {
  StoreOptions lamb = options_of(DType::bf16, DType::f32);
  lamb.optimizer = optimizers::LambSettings();
  expect_same(lamb, "LAMB");
  StoreOptions sgd = options_of(DType::f32, DType::f32);
  sgd.optimizer = optimizers::SgdSettings();
  expect_same(sgd, "SGD");
  for (const optimizers::MomentFormat format : {optimizers::MomentFormat::bf16, optimizers::MomentFormat::int8}) {
    StoreOptions adamw = options_of(DType::bf16, DType::bf16);
    adamw.moments = {format, format == optimizers::MomentFormat::int8 ? format : optimizers::MomentFormat::f32};
    expect_same(adamw, "moments");
  }
}

TEST(Courier, AnOverflowOnOneRankSkipsTheStepOnAll) {
  StoreOptions options = options_of(DType::f16, DType::f16);
  options.loss_scaling = true;
  expect_same(options, "fp16", /*overflows=*/1);
  EXPECT_TRUE(run_ranks(options, 2, /*overflows=*/1).outcome.skipped[1]);
}

// Each rank sends each other the sums of its contributions to the shard that is there, and all its own new weights.
TEST(Courier, TrafficIsWhatTheShardsSay) {
  const StoreOptions options = options_of(DType::bf16, DType::f32);
  const Result run = run_ranks(options, 2);
  const ModelLayout layout = toy_layout();
  for (int rank = 0; rank < 2; ++rank) {
    std::array<Traffic, eps::kExchangeKinds> expected{};
    for (std::size_t i = 0; i < layout.groups.size(); ++i) {
      const auto cuts = eps::shard_cuts(layout.groups[i], 2, /*whole_tensors=*/false);
      const auto own = static_cast<std::size_t>(rank), other = 1 - own;
      const auto contributions = static_cast<Bytes>(layout.uses()[i]);
      const auto count = [&](std::size_t shard, std::int64_t eps::ShardCut::*member) {
        return static_cast<Bytes>(cuts[shard + 1].*member - cuts[shard].*member);
      };
      expected[0].sent += contributions * count(other, &eps::ShardCut::gradient) * sizeof(float);
      expected[0].received += contributions * count(own, &eps::ShardCut::gradient) * sizeof(float);
      expected[1].sent += count(own, &eps::ShardCut::block) * sizeof(double);
      expected[1].received += count(other, &eps::ShardCut::block) * sizeof(double);
      expected[2].sent += count(own, &eps::ShardCut::wire) * size_of(DType::bf16);
      expected[2].received += count(other, &eps::ShardCut::wire) * size_of(DType::bf16);
    }
    for (std::size_t kind = 0; kind < eps::kExchangeKinds; ++kind) {
      const Traffic& found = run.traffic[static_cast<std::size_t>(rank)][kind];
      EXPECT_EQ(found.sent, kSteps * expected[kind].sent) << "rank " << rank << ", kind " << kind;
      EXPECT_EQ(found.received, kSteps * expected[kind].received) << "rank " << rank << ", kind " << kind;
    }
  }
}

void expect_counted(StoreOptions options, int ranks, const std::string& what) {
  const Result run = run_ranks(options, ranks);
  options.devices /= ranks;
  options.rank.count = ranks;
  const ModelLayout layout = toy_layout();
  const std::vector<std::vector<eps::ElementRange>> uses = eps::gradients_of_uses(layout);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    eps::ExchangeBytes counted;
    for (std::size_t i = 0; i < layout.groups.size(); ++i) {
      counted = counted + eps::exchange_bytes(layout.groups[i], uses[i], options)[index];
    }
    Traffic visits;  // one of each layer, after the last step
    for (LayerIndex layer = kEmbedding; layer <= kHead; ++layer) {
      visits = visits + eps::visit_bytes(layout, layer, options)[index];
    }
    EXPECT_EQ(run.traffic[index][3], visits) << what << ", rank " << rank << " of " << ranks;
    const Traffic kinds[eps::kGroupExchangeKinds] = {counted.gradients, counted.squares, counted.wire};
    for (std::size_t kind = 0; kind < eps::kGroupExchangeKinds; ++kind) {
      const Traffic& found = run.traffic[index][kind];
      const Traffic expected{kSteps * kinds[kind].sent, kSteps * kinds[kind].received};
      EXPECT_EQ(found, expected) << what << ", rank " << rank << " of " << ranks << ", kind " << kind;
    }
  }
}

// The same counted without a store, as plans do.
TEST(Courier, TrafficIsWhatIsCountedBefore) {
  for (const int ranks : {2, 3, 4}) {
    StoreOptions options = options_of(DType::bf16, DType::f32, /*devices=*/12);
    expect_counted(options, ranks, "eager");
    options.update = eps::UpdateMode::after_backward;
    expect_counted(options, ranks, "held");
    options.optimizer = optimizers::LambSettings();
    expect_counted(options, ranks, "LAMB");
    options.shard_wire = true;
    expect_counted(options, ranks, "LAMB, sharded wire");
  }
  const ModelLayout layout = toy_layout();
  for (const std::size_t group : {0, 1}) {
    const std::vector<eps::ElementRange> uses = eps::gradients_of_uses(layout)[group];
    const std::vector<eps::ExchangeBytes> alone =
        eps::exchange_bytes(layout.groups[group], uses, options_of(DType::bf16, DType::f32));
    ASSERT_EQ(alone.size(), 1u);
    EXPECT_EQ(alone[0].all(), Traffic());
  }
}

// Gradients of this rank's devices leave as they are where their sum in fp32 would not be fewer bytes, or would not be
// a part of the tree over all devices.
TEST(Courier, DevicesAreSummedWhereThatIsFewerBytes) {
  const auto sent_of = [](int devices, DType gradients) {
    StoreOptions options = options_of(DType::bf16, gradients, devices);
    options.rank = {0, 2};
    return std::pair(options.sent_gradients(), options.sent_type());
  };
  EXPECT_EQ(sent_of(1, DType::f32), std::pair(1, DType::f32));
  EXPECT_EQ(sent_of(2, DType::f32), std::pair(1, DType::f32));
  EXPECT_EQ(sent_of(3, DType::f32), std::pair(3, DType::f32));
  EXPECT_EQ(sent_of(8, DType::f32), std::pair(1, DType::f32));
  EXPECT_EQ(sent_of(1, DType::bf16), std::pair(1, DType::bf16));
  EXPECT_EQ(sent_of(2, DType::bf16), std::pair(2, DType::bf16));
  EXPECT_EQ(sent_of(4, DType::bf16), std::pair(1, DType::f32));
  StoreOptions alone = options_of(DType::bf16, DType::f32, 4);
  EXPECT_FALSE(alone.sums_devices());
}

TEST(Courier, SumsOfDevicesHaveTheBitsOnEveryLane) {
  for (const DType gradients : {DType::f32, DType::bf16}) {
    for (const bool held : {false, true}) {
      StoreOptions options = options_of(DType::bf16, gradients, /*devices=*/16);
      options.update = held ? eps::UpdateMode::after_backward : eps::UpdateMode::eager;
      options.placement.lanes = {{-1, 1, {}}, {-1, 2, {}}, {-1, 1, {}}};
      options.staging_slots = 16;  // room for one group at a time on its way
      expect_same(options, held ? "held" : "eager");
    }
  }
}

// A rank's sum is one summand of the whole sum: more devices can train together than have their gradients added one by
// one.
TEST(Courier, ManyDevicesTrainTogetherWhereTheyAreSummed) {
  StoreOptions options = options_of(DType::bf16, DType::bf16, /*devices=*/128);
  const Result few = run_ranks(options, 16), many = run_ranks(options, 32);
  EXPECT_TRUE(few.ranks_agree && many.ranks_agree);
  EXPECT_TRUE(few.outcome == many.outcome);
  options.rank = {0, 65};
  EXPECT_EQ(options.too_many(), "65 processes send 65 gradients of each weight, and at most 64 can be added");
  options.rank = {0, 33};
  options.devices = 2;
  EXPECT_EQ(options.too_many(),
            "33 processes send 66 gradients of each weight, and at most 64 can be added; one with 4 devices, or a "
            "larger power of two, sends one");
}

// What they measure is divided by the number of all devices, not of what ranks send.
TEST(Courier, StatisticsOfSummedDevicesAreThoseOfAll) {
  ModelLayout layout = toy_layout();
  layout.groups[1].parameters[0].statistic = 0.1F;
  const StoreOptions options = options_of(DType::bf16, DType::f32);
  EXPECT_TRUE(run_ranks(options, 2, -1, {}, layout).outcome == run_alone(options, -1, layout));
}

// Held gradients of several devices are kept as sums of this rank's shard.
TEST(Courier, HeldGradientsDoNotGrowWithTheDevices) {
  StoreOptions options = options_of(DType::bf16, DType::bf16, /*devices=*/4);
  options.update = eps::UpdateMode::after_backward;
  options.rank = {0, 2};
  const eps::StoreBytes few = ParameterStore::bytes_needed(toy_layout(), options);
  options.devices = 8;
  const eps::StoreBytes many = ParameterStore::bytes_needed(toy_layout(), options);
  EXPECT_EQ(few.held, 0U);
  EXPECT_EQ(many.held, 0U);
  EXPECT_EQ(many.received, few.received);
}

// Wires are on every rank, the rest on one.
TEST(Courier, StateIsSharedAmongRanks) {
  const StoreOptions options = options_of(DType::bf16, DType::f32);
  StoreOptions alone = options;
  alone.devices = 1;
  const Bytes whole = ParameterStore::bytes_needed(toy_layout(), alone).state;
  Bytes wires = 0;
  for (const GroupSpec& group : toy_layout().groups)
    wires += static_cast<Bytes>(group.elements) * size_of(options.wire);
  for (const int ranks : {2, 4}) {
    const Bytes expected = whole + static_cast<Bytes>(ranks - 1) * wires;
    const auto padding = static_cast<Bytes>(ranks) * toy_layout().groups.size() * 8192;  // between fields
    EXPECT_NEAR(static_cast<double>(run_ranks(options, ranks).memory), static_cast<double>(expected),
                static_cast<double>(padding));
    StoreOptions sharded = options;
    sharded.shard_wire = true;
    EXPECT_NEAR(static_cast<double>(run_ranks(sharded, ranks).memory), static_cast<double>(whole),
                static_cast<double>(padding));
  }
}

// Negative controls: what does not arrive as it was sent is seen by the bits, or by ranks that do not agree.
TEST(Courier, APieceThatIsLostIsSeen) {
  StoreOptions options = options_of(DType::bf16, DType::f32);
  const Outcome alone = run_alone(options);
  static const std::vector<std::byte> zeros(1 << 20);
  for (int kind = 0; kind < eps::kExchangeKinds; ++kind) {
    options.shard_wire = kind == static_cast<int>(ExchangeKind::visit);
    const Result run = run_ranks(options, 2, -1, [&](int& channel, std::vector<collectives::Send>& sent) {
      const int of_groups = static_cast<int>(toy_layout().groups.size()) * eps::kGroupExchangeKinds;
      const bool visit = channel > of_groups && channel <= of_groups + static_cast<int>(toy_layout().layers.size());
      const int of = visit ? static_cast<int>(ExchangeKind::visit) : (channel - 1) % eps::kGroupExchangeKinds;
      if (of != kind || (!visit && channel > of_groups)) return;
      for (collectives::Send& piece : sent) piece.bytes = std::span(zeros).first(piece.bytes.size());
    });
    EXPECT_FALSE(run.ranks_agree && run.outcome == alone) << "kind " << kind;
    if (kind == 0) {
      EXPECT_TRUE(run.ranks_agree);
    }
  }
}

TEST(Courier, ADeviceThatIsNotSummedIsSeen) {
  L2L_NEEDS_FAULT_POINTS();
  for (const DType gradients : {DType::f32, DType::bf16}) {
    const StoreOptions options = options_of(DType::bf16, gradients, /*devices=*/8);
    const Outcome alone = run_alone(options);
    const ArmedFaultPoint fault("eps.sum_without_a_device");
    const Result run = run_ranks(options, 2);
    EXPECT_TRUE(run.ranks_agree);
    EXPECT_FALSE(run.outcome == alone);
  }
}

}  // namespace
}  // namespace l2l::transfer

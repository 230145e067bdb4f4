// Law 2 on the CUDA device, whose real sources run on an emulated GPU (tests/emulation): bits depend neither on how a
// run is executed nor on the order in which the GPU's threads and streams run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <stdexcept>

#include "core/fault_point.h"
#include "core/log.h"
#include "device/open.h"
#include "tests/emulation/runtime.h"
#include "tests/laws/buckets.h"
#include "tests/laws/custom_models.h"
#include "tests/laws/failing_gpu.h"
#include "tests/laws/packing.h"
#include "tests/laws/small_run.h"

namespace l2l {
namespace {

using testing::Record;
using testing::SmallRun;

constexpr int kSteps = 2;

class CudaEmulated : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("L2L_CUDA_MODULE", L2L_EMULATED_MODULE, 1); }
  void TearDown() override {
    emulation::set_machine({});
    emulation::set_order(0);
  }

  Options options(const char* kind, const char* execution, const char* stash) const {
    Options options = run_.options();
    options.device.kind = kind;
    options.device.execution = execution;
    options.transfer.stash = stash;
    return options;
  }
  static Record record(const Options& options) { return testing::record_of(options, kSteps); }

  const SmallRun run_;
};

TEST_F(CudaEmulated, RelayIsResidentBitForBit) {
  const Record first = record(options("cuda", "resident", "device"));
  for (const char* stash : {"host", "device"}) {
    emulation::set_order(stash[0]);
    EXPECT_EQ(record(options("cuda", "relay", stash)), first) << stash;
  }
  Options plain = options("cuda", "relay", "host");
  plain.device.graphs = false;
  plain.device.pinned_memory = 1;  // all copies are staged
  emulation::set_machine({.delay = std::chrono::microseconds(200)});
  EXPECT_EQ(record(plain), first);
}

TEST_F(CudaEmulated, PackedDocumentsHaveTheGradientsOfTheDocumentsAlone) {
  for (const char* const architecture :
       {"gpt2", "bert", "roberta", "llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3"}) {
    const auto on_cuda = [](Options& options) { options.device.kind = "cuda"; };
    Options options = testing::packing_options(architecture, testing::kPackedSequence, /*packed=*/true);
    on_cuda(options);
    const testing::Gradients packed = testing::gradients_packed(options);
    EXPECT_LE(testing::difference(packed, testing::gradients_alone(architecture, on_cuda)), 1e-5) << architecture;
    const testing::Gradients leaking = testing::gradients_packed(options, 0, [](const runtime::SequenceView& sequence) {
      for (std::size_t row = 7; row < 20; ++row) sequence.begins[row] = 6;
    });
    EXPECT_GT(testing::difference(leaking, packed), 1e-3) << architecture;
  }
}

TEST_F(CudaEmulated, PaddedSamplesOfSeveralLengthsHaveTheGradientsOfOne) {
  const testing::PaddedTexts texts;
  for (const char* const architecture : {"gpt2", "bert", "gemma3"}) {
    Options one = texts.options(architecture, 1), several = texts.options(architecture, 8);
    one.device.kind = several.device.kind = "cuda";
    EXPECT_LE(testing::difference(testing::gradients_padded(several), testing::gradients_padded(one)), 1e-6)
        << architecture;
  }
}

TEST_F(CudaEmulated, AFeaturePyramidRebuildsItsInputs) {
  const auto run = [](const char* kind, const char* execution, const char* stash) {
    Options options;
    options.precision.compute = "fp32";
    options.model = testing::small_revbifpn("fixed");
    options.data.train_source = options.data.validation_source = testing::drawn_samples();
    options.device.kind = kind;
    options.device.execution = execution;
    options.transfer.stash = stash;
    options.batch = {.micro_batch = 2, .micro_batches = 2};
    options.run.steps = kSteps;
    return record(options);
  };
  const Record first = run("cuda", "relay", "auto"), host = run("host", "relay", "auto");
  EXPECT_EQ(run("cuda", "relay", "host"), first);
  EXPECT_EQ(run("cuda", "resident", "auto"), first);
  for (std::size_t i = 0; i < first.losses.size(); ++i) {
    EXPECT_NEAR(first.losses[i], host.losses[i], 1e-4 * host.losses[i]);
    EXPECT_NEAR(first.norms[i], host.norms[i], 1e-3 * host.norms[i]);
  }
}

TEST_F(CudaEmulated, FrozenParametersAndAdaptersAreTheHostsToo) {
  for (const char* const family : {"gpt2", "bert", "llama"}) {
    for (const bool adapters : {false, true}) {
      const auto run = [&](const char* kind, const char* execution) {
        Options options = run_.options(family);
        options.device.kind = kind;
        options.device.execution = execution;
        if (adapters) {
          options.lora = {.rank = 3, .dropout = 0.1};
        } else {
          options.optimizer.train = {"*.1.*", "*.2.*weight"};
        }
        return record(options);
      };
      const Record first = run("cuda", "relay"), host = run("host", "relay");
      EXPECT_EQ(run("cuda", "resident"), first) << family;
      for (std::size_t i = 0; i < first.losses.size(); ++i) {
        EXPECT_NEAR(first.losses[i], host.losses[i], 1e-5 * host.losses[i]) << family;
        EXPECT_NEAR(first.norms[i], host.norms[i], 1e-4 * host.norms[i]) << family;
      }
    }
  }
}

TEST_F(CudaEmulated, ReversibleBlocksGiveTheBitsOfStoredInputs) {
  Options rebuilt = options("cuda", "relay", "auto");
  rebuilt.model.reversible = "fixed";
  rebuilt.precision.compute = "bf16";
  rebuilt.model.intermediate = 100;
  Options stored = rebuilt, resident = rebuilt, host = rebuilt;
  stored.transfer.stash = "device";
  resident.device.execution = "resident";
  host.device.kind = "host";
  const Record first = record(rebuilt), of_the_host = record(host);
  emulation::set_order(5);
  EXPECT_EQ(record(stored), first);
  EXPECT_EQ(record(resident), first);
  // In bf16 the two differ in how they round ties.
  for (std::size_t i = 0; i < first.losses.size(); ++i) {
    EXPECT_NEAR(first.losses[i], of_the_host.losses[i], 1e-3 * of_the_host.losses[i]);
  }
}

// 13 rows of 12 numbers in bf16: the second of two streams, and its gradient, begin 8 bytes from a multiple of 16.
TEST_F(CudaEmulated, StreamsOfAnySizeAreRead) {
  for (const char* const reversible : {"fixed", "float"}) {
    Options cuda = options("cuda", "relay", "auto");
    cuda.model.reversible = reversible;
    cuda.model.hidden = 12;
    cuda.model.heads = 2;
    cuda.model.sequence = 13;
    cuda.precision.compute = "bf16";
    cuda.batch = {.micro_batch = 1, .micro_batches = 2};
    Options host = cuda;
    host.device.kind = "host";
    const Record first = record(cuda), of_the_host = record(host);
    for (std::size_t i = 0; i < first.losses.size(); ++i) {
      EXPECT_NEAR(first.losses[i], of_the_host.losses[i], 2e-3 * of_the_host.losses[i]) << reversible;
    }
  }
}

TEST_F(CudaEmulated, StreamsInFloatingPointDrift) {
  Options options = this->options("cuda", "relay", "auto");
  options.model.reversible = "float";
  Trainer trainer(options);
  const double drift = trainer.step().stream_drift.value();
  EXPECT_GT(drift, 0);
  EXPECT_LT(drift, 1e-5);
}

TEST_F(CudaEmulated, LossesAreThoseOfTheHost) {
  const Record cuda = record(options("cuda", "relay", "host")), host = record(options("host", "relay", "host"));
  for (std::size_t i = 0; i < host.losses.size(); ++i) {
    EXPECT_NEAR(cuda.losses[i], host.losses[i], 1e-5 * host.losses[i]);
    EXPECT_NEAR(cuda.norms[i], host.norms[i], 1e-4 * host.norms[i]);
  }
}

// With a cache of keys and values, which the whole texts on the host have none of.
TEST_F(CudaEmulated, ContinuesTextsAsTheHost) {
  const std::vector<std::vector<std::int32_t>> prompts = {{'a', 'b', 'c'}, {'d'}, {'e', 'f'}};
  const auto continuations = [&](const char* family, const char* kind, const char* execution, bool cache) {
    Options options = run_.options(family);
    options.device.kind = kind;
    options.device.execution = execution;
    options.batch = {.micro_batch = 1, .micro_batches = 1};
    options.transfer.vocabulary_chunk = cache ? 100 : 0;
    Trainer trainer(options);
    if (cache) trainer.reserve_generation({.prompts = 3, .longest_prompt = 3, .tokens = 12});
    return trainer.generate_all(prompts, {.tokens = 12, .temperature = 0});
  };
  for (const char* const family : {"gpt2", "llama"}) {
    const auto host = continuations(family, "host", "relay", false);
    EXPECT_EQ(continuations(family, "cuda", "relay", true), host) << family;
    emulation::set_order(5);
    EXPECT_EQ(continuations(family, "cuda", "resident", true), host) << family;
  }
}

TEST_F(CudaEmulated, CoreAttentionIsTheHostsToo) {
  const auto core = [&](const char* kind, const char* execution) {
    Options options = this->options(kind, execution, "host");
    options.model.attention = "core";
    return record(options);
  };
  const Record relay = core("cuda", "relay"), host = core("host", "relay");
  emulation::set_order(5);
  EXPECT_EQ(core("cuda", "resident"), relay);
  for (std::size_t i = 0; i < host.losses.size(); ++i) {
    EXPECT_NEAR(relay.losses[i], host.losses[i], 1e-5 * host.losses[i]);
    EXPECT_NEAR(relay.norms[i], host.norms[i], 1e-4 * host.norms[i]);
  }
}

// Whatever is kept, wherever, and however little scratch there is.
TEST_F(CudaEmulated, RecomputationChangesNoBit) {
  for (const char* const compute : {"fp32", "bf16"}) {
    const auto with = [&](const char* policy, const char* execution, const char* stash) {
      Options options = this->options("cuda", execution, stash);
      options.precision.compute = compute;
      options.recompute.policy = policy;
      return record(options);
    };
    const Record first = with("none", "relay", "host");
    emulation::set_order(3);
    EXPECT_EQ(with("min_cut", "relay", "host"), first) << compute;
    EXPECT_EQ(with("none", "resident", "device"), first) << compute;
    EXPECT_EQ(with("full", "relay", "device"), first) << compute;
    // The stash of some blocks on the device, and weights that stay.
    Options partly = options("cuda", "relay", "host");
    partly.precision.compute = compute;
    partly.recompute.policy = "none";
    partly.transfer.resident_layers = 1;
    const std::uint64_t least = Trainer(partly).contract().device_bytes;
    partly.transfer.stash = "device";
    partly.device.memory = (least + Trainer(partly).contract().device_bytes) / 2;
    partly.transfer.stash = "auto";
    EXPECT_EQ(Trainer(partly).contract().stash, "split") << compute;
    EXPECT_EQ(record(partly), first) << compute;
  }
}

// With the parameter server's memory page-locked by the first one, or left pageable.
TEST_F(CudaEmulated, TwoDevicesTrainLikeOne) {
  emulation::set_machine({.devices = 2});
  Options one = options("cuda", "relay", "host");
  one.batch.micro_batches = 4;
  Options two = one;
  two.device.count = 2;
  const Record expected = record(one), first = record(two);
  EXPECT_EQ(first.losses[0], expected.losses[0]);
  EXPECT_NEAR(first.norms[0], expected.norms[0], 1e-7 * expected.norms[0]);
  EXPECT_NEAR(first.losses[1], expected.losses[1], 1e-7 * expected.losses[1]);
  emulation::set_order(7);
  two.device.pinned_memory = 1;
  EXPECT_EQ(record(two), first);
  two.device.index = 1;
  EXPECT_THROW(Trainer{two}, BadInput);
}

TEST_F(CudaEmulated, WithPartsTwoDevicesHaveTheBitsOfOne) {
  emulation::set_machine({.devices = 2});
  Options one = options("cuda", "relay", "host");
  one.batch.micro_batches = one.batch.parts = 4;
  Options two = one;
  two.device.count = 2;
  EXPECT_EQ(record(two), record(one));
}

// Weights that several GPUs gather, and gradients that they sum, by the stand-in for NCCL.
class GatheringGpus : public CudaEmulated {
 protected:
  Options gathering(int count, const char* feed, const char* family = "gpt2") const {
    Options options = run_.options(family);
    options.device.kind = "cuda";
    options.device.count = count;
    options.device.feed = feed;
    options.device.sums = std::string(feed) == "gathered" ? "devices" : "host";
    options.transfer.stash = "host";
    options.batch = {.micro_batch = 1, .micro_batches = count};
    return options;
  }
  static std::string feed_of(const Options& options) { return Trainer(options).contract().weight_feed; }
};

TEST_F(GatheringGpus, HaveTheBitsOfGpusThatCopyAll) {
  emulation::set_machine({.devices = 4});
  for (const char* const family : {"gpt2", "llama_tied"}) {
    for (const char* const compute : {"fp32", "bf16"}) {
      for (const int count : {2, 3, 4}) {
        Options whole = gathering(count, "whole", family), gathered = gathering(count, "gathered", family);
        whole.precision.compute = gathered.precision.compute = compute;
        EXPECT_EQ(record(gathered), record(whole)) << family << ", " << compute << ", " << count;
      }
    }
  }
}

TEST_F(GatheringGpus, HaveTheSameBitsHoweverTheRunIsExecuted) {
  emulation::set_machine({.devices = 3});
  const Record whole = record(gathering(3, "whole"));
  const testing::Ways ways = {{"resident", [](Options& o) { o.device.execution = "resident"; }},
                              {"weights that stay", [](Options& o) { o.transfer.resident_layers = 1; }},
                              {"all copies staged", [](Options& o) { o.device.pinned_memory = 1; }},
                              {"without graphs", [](Options& o) { o.device.graphs = false; }}};
  for (const auto& [name, change] : ways) {
    Options options = gathering(3, "gathered");
    change(options);
    EXPECT_EQ(record(options), whole) << name;
  }
  emulation::set_order(3);
  emulation::set_machine({.devices = 3, .delay = std::chrono::microseconds(200)});
  EXPECT_EQ(record(gathering(3, "gathered")), whole);
}

TEST_F(GatheringGpus, AreTheDefaultWhereNcclIsThere) {
  emulation::set_machine({.devices = 2});
  const std::string feed = "each device copies 1/2 of a layer and gathers the rest by NCCL 2.";
  for (const char* const option : {"auto", "gathered"}) {
    EXPECT_EQ(feed_of(gathering(2, option)).substr(0, feed.size()), feed) << option;
  }
  EXPECT_EQ(feed_of(gathering(2, "whole")), "each device copies all of a layer");
  EXPECT_EQ(feed_of(gathering(1, "auto")), "");
  const auto sums_of = [&](const char* sums, const char* compute, const char* weights = "whole") {
    Options options = gathering(2, weights);
    options.device.sums = sums;
    options.precision.compute = compute;
    return Trainer(options).contract().gradient_sums;
  };
  const std::string sums = "each device sums 1/2 of a layer's, exchanged by NCCL 2.";
  EXPECT_EQ(sums_of("auto", "fp32").substr(0, sums.size()), sums);
  EXPECT_EQ(sums_of("devices", "bf16").substr(0, sums.size()), sums);
  EXPECT_EQ(sums_of("devices", "fp32", "gathered").substr(0, sums.size()), sums);
  EXPECT_NE(sums_of("auto", "fp32", "gathered").find("both at once have not been tried"), std::string::npos);
  EXPECT_EQ(sums_of("auto", "bf16"), "the host sums those of all devices, since sums in fp32 are no fewer bytes");

  emulation::set_machine({.devices = 2, .nccl = false});
  const std::string why = feed_of(gathering(2, "auto"));
  EXPECT_EQ(why.substr(0, 53), "each device copies all of a layer, since NCCL refuses");
  EXPECT_NE(why.find("no communicators on this machine"), std::string::npos) << why;
  EXPECT_NE(sums_of("auto", "fp32").find("no communicators on this machine"), std::string::npos);
  EXPECT_THROW(sums_of("devices", "fp32"), BadInput);
  try {
    Trainer trainer(gathering(2, "gathered"));
    FAIL() << "gathers without NCCL";
  } catch (const BadInput& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find("device.feed = \"gathered\": NCCL refuses: ncclCommInitRankConfig"), 0u) << message;
    EXPECT_NE(message.find("use \"whole\" or \"auto\""), std::string::npos) << message;
  }
}

TEST_F(GatheringGpus, HaveTheMemoryThatTheContractStates) {
  emulation::set_machine({.devices = 3});
  Trainer trainer(gathering(3, "gathered"));
  EXPECT_EQ(trainer.step().device_peak_bytes, trainer.contract().device_bytes);
}

// Law 8: wherever the others are, they do not wait for a device that has failed.
TEST_F(GatheringGpus, EndWithTheErrorOfOneOfThem) {
  emulation::set_machine({.devices = 3});
  testing::expect_ends_with_the_error_of_a_gpu(36, [&](int attempt) {
    Options options = gathering(3, "gathered");
    options.device.pinned_memory = attempt % 4 == 0 ? 1 : 0;
    return options;
  });
}

#ifdef L2L_FAULT_POINTS
TEST_F(GatheringGpus, NegativeControlOfASliceThatNobodyBrought) {
  emulation::set_machine({.devices = 2});
  const Record honest = record(gathering(2, "gathered"));
  arm_fault_point("weights.stale_slice");
  Record broken;
  try {
    broken = record(gathering(2, "gathered"));
  } catch (const Error&) {  // numbers that are none
  }
  arm_fault_point("");
  EXPECT_NE(broken, honest);
}
#endif

// A graph belongs to the memory that a program finds. With the stash on the device that is the same in each step: of L
// blocks and u microbatches L u forward and L u backward passes, u of the embedding each way and u of the head; and
// what rounds gradients, of blocks for both buffers that take turns, of head and embedding for one where a step has an
// even number of layers (L + 2), else for both.
TEST_F(CudaEmulated, GraphsAreAsManyAsThereAreBuffers) {
  for (const int layers : {4, 9}) {
    for (const int microbatches : {1, 3}) {
      Options options = this->options("cuda", "relay", "device");
      options.model.layers = layers;
      options.batch.micro_batches = microbatches;
      Trainer trainer(options);
      const int before = emulation::graphs_made();
      for (int step = 0; step < 3; ++step) trainer.step();
      const int formula = (2 * layers + 3) * microbatches + (layers % 2 == 0 ? 4 : 6);
      EXPECT_EQ(emulation::graphs_made() - before, formula) << layers << " " << microbatches;
      for (int step = 0; step < 5; ++step) trainer.step();
      EXPECT_EQ(emulation::graphs_made() - before, formula) << "further steps need no more";
    }
  }
}

// With the stash on the host, layer inputs pass through rings of u + 1 buffers on their way out and of two on their way
// back, where a step goes on behind the last one: the number of graphs is bounded without regard to depth and steps.
TEST_F(CudaEmulated, GraphsDoNotGrowWithDepthWhereTheStashIsOnTheHost) {
  constexpr int kMicrobatches = 3, kRing = kMicrobatches + 1;
  // Blocks: slots of weights, and buffers of inputs and gradients of inputs; embedding and head: those, by microbatch.
  constexpr int kMost = 2 * kRing + 2 * 2 * kRing + 4 * kMicrobatches * kRing;
  for (const int layers : {4, 13}) {
    Options options = this->options("cuda", "relay", "host");
    options.model.layers = layers;
    options.batch.micro_batches = kMicrobatches;
    Trainer trainer(options);
    const int before = emulation::graphs_made();
    for (int step = 0; step < 2 * kRing; ++step) trainer.step();
    const int made = emulation::graphs_made() - before;
    EXPECT_LE(made, kMost) << layers;
    for (int step = 0; step < kRing; ++step) trainer.step();
    EXPECT_EQ(emulation::graphs_made() - before, made) << layers;
  }
}

// Where the driver has no memory for more graphs, programs run without, with the same bits, and that is said once.
TEST_F(CudaEmulated, ARunGoesOnWithoutMemoryForGraphs) {
  const Options options = this->options("cuda", "relay", "device");
  const Record expected = record(options);
  std::string said;
  set_log_sink([&](LogLevel, std::string_view message) { said += std::string(message) + "\n"; });
  const int before = emulation::graphs_made();
  emulation::set_machine({.graphs = before + 3});
  EXPECT_EQ(record(options), expected);
  set_log_sink({});
  EXPECT_EQ(emulation::graphs_made(), before + 3);
  EXPECT_NE(said.find("no more CUDA graphs are made: cudaGraphInstantiate: cudaErrorMemoryAllocation"),
            std::string::npos)
      << said;
  EXPECT_EQ(said.find("graphs"), said.rfind("graphs")) << said;
}

// Speed and last bits depend on it, and on GPUs it is cuDNN that decides.
TEST_F(CudaEmulated, TheKernelsOfAttentionAreSaidOnce) {
  Options options = this->options("cuda", "relay", "device");
  options.optimizer.max_norm = OptimizerOptions().max_norm;  // without clipping another one is warned of
  options.model.sequence = 21;                               // as no other test has
  ::testing::internal::CaptureStderr();                      // emulated kernels are a library with a sink of its own
  for (int run = 0; run < 2; ++run) record(options);
  options.precision.compute = "bf16";
  record(options);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "attention in f32, 3 heads of 8, 21 tokens: forward pass by our kernels without tensor cores\n"
            "attention in f32, 3 heads of 8, 21 tokens: backward pass by our kernels without tensor cores\n"
            "attention in bf16, 3 heads of 8, 21 tokens: forward pass by our kernels on tensor cores\n"
            "attention in bf16, 3 heads of 8, 21 tokens: backward pass by our kernels on tensor cores\n");
}

// Products and attention of fp32 on tensor cores: other bits, the same ones however a run is executed, and losses
// nearby.
TEST_F(CudaEmulated, Tf32ChangesBitsOnlyWhereItIsAskedFor) {
  const auto run = [&](const char* kind, const char* execution, bool tf32) {
    Options options = this->options(kind, execution, "host");
    options.precision.tf32 = tf32;
    return record(options);
  };
  const Record exact = run("cuda", "relay", false), rounded = run("cuda", "relay", true);
  EXPECT_EQ(run("cuda", "resident", true), rounded);
  EXPECT_NE(rounded, exact);
  for (std::size_t i = 0; i < exact.losses.size(); ++i) {
    EXPECT_NEAR(rounded.losses[i], exact.losses[i], 1e-3 * exact.losses[i]);
  }
  EXPECT_EQ(run("host", "relay", true), run("host", "relay", false));
}

// An op of a program's own whose functions on the GPU copy: also replayed in a graph, it does what it does on the host.
TEST_F(CudaEmulated, OwnOpsRunInGraphsLikeOthers) {
  const auto copy = [](void* to, const void* from, const CustomOnGpu& call) {
    const std::size_t size = call.element == CustomOnGpu::Element::fp32 ? 4 : 2;
    cudaMemcpyAsync(to, from, static_cast<std::size_t>(call.rows * call.columns) * size, cudaMemcpyDeviceToDevice,
                    static_cast<cudaStream_t>(call.stream));
  };
  const auto op = std::make_shared<CustomOp>();
  op->name = "copy", op->version = "1";
  op->forward = [](const CustomForward& call) { std::ranges::copy(call.x, call.y.begin()); };
  op->backward = [](const CustomBackward& call) { std::ranges::copy(call.dy, call.dx.begin()); };
  op->gpu_forward = [=](const CustomForwardOnGpu& call) { copy(call.y, call.x, call); };
  op->gpu_backward = [=](const CustomBackwardOnGpu& call) { copy(call.dx, call.dy, call); };
  const auto run = [&](const char* kind, const char* execution, bool graphs, bool own) {
    Options options = this->options(kind, execution, "host");
    options.device.graphs = graphs;
    const auto build = [=](LayerBuilder& graph, std::span<const Value> x) -> std::vector<Value> {
      const std::int64_t columns = graph.columns(x[0]);
      const Value wide = graph.linear(x[0], graph.matrix("w", columns, columns, Distribution::normal(0.1)));
      return {graph.add(x[0], own ? graph.custom(wide, op) : graph.scale(wide, 1))};
    };
    options.model.blocks = {{.id = 0}, {.id = 1, .type = "own", .build = build}, {.id = 2}};
    return record(options);
  };
  const Record first = run("cuda", "relay", true, true), host = run("host", "relay", true, true);
  EXPECT_EQ(run("cuda", "relay", false, true), first);
  EXPECT_EQ(run("cuda", "resident", true, true), first);
  EXPECT_EQ(run("cuda", "relay", true, false), first);
  for (std::size_t i = 0; i < first.losses.size(); ++i) {
    EXPECT_NEAR(first.losses[i], host.losses[i], 1e-5 * host.losses[i]);
  }
}

// What the host's contract has for gradients that wait for updates.
TEST_F(CudaEmulated, GradientsMayTakeATwentiethOfTheStateBesideAGpu) {
  const auto contract = [&](const char* kind, const std::function<void(Options&)>& change) {
    Options options = this->options(kind, "relay", "host");
    options.model.layers = 100;
    options.optimizer.clip = "none";
    change(options);
    const Trainer trainer(options);
    const auto bytes = [&](const char* what) {
      for (const ContractLine& line : trainer.contract().host) {
        if (line.what == what) return line.bytes;
      }
      return std::uint64_t{0};
    };
    return std::pair(bytes("gradient staging"), bytes("weights and optimizer state"));
  };
  const auto nothing = [](Options&) {};
  const auto [few, state] = contract("host", nothing);
  const std::uint64_t many = contract("cuda", nothing).first;
  EXPECT_GT(many, 3 * few);
  EXPECT_LE(many, state / 20 + few);
  EXPECT_EQ(contract("cuda", [](Options& o) { o.eps.gradient_buffers = 3; }).first, few);
  EXPECT_EQ(contract("cuda", [](Options& o) { o.device.pinned_memory = 1 << 20; }).first, few);
  const std::uint64_t limit = state + few + (many - few) / 2;
  const std::uint64_t within = contract("cuda", [&](Options& o) { o.eps.memory = limit; }).first;
  EXPECT_GT(within, few);
  EXPECT_LE(state + within, limit);
}

// Law 3 counts on it: what is planned is all that is taken.
TEST_F(CudaEmulated, StreamsTakeNoDeviceMemory) {
  const auto device = device::open_device({.kind = "cuda"});
  std::size_t before = 0, after = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  const auto first = device->create_stream("first"), second = device->create_stream("second");
  ASSERT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
  EXPECT_EQ(after, before);
}

// Law 3 counts on that, too: what a kernel takes when it is first launched is taken before a run is planned.
TEST_F(CudaEmulated, KernelsAreLoadedBeforeARunIsPlanned) {
  const auto loaded = [](const Options& options) {
    emulation::unload_kernels();
    Trainer trainer(options);
    const std::size_t when_planned = emulation::kernels_loaded();
    testing::record_of(trainer, kSteps);
    return std::pair(when_planned, emulation::kernels_loaded());
  };
  emulation::set_machine({.code = std::size_t{1} << 20});
  for (const char* const policy : {"full", "selective", "none"}) {
    Options run = options("cuda", "relay", "host");
    run.recompute.policy = policy;
    const auto [planned, done] = loaded(run);
    EXPECT_GT(planned, 10) << policy;
    EXPECT_EQ(done, planned) << policy;
    arm_fault_point("plan.load_no_code");
    const auto [late_planned, late_done] = loaded(run);
    arm_fault_point("");
    EXPECT_LT(late_planned, late_done) << policy;
  }
}

constexpr std::size_t kGraphReserve = std::size_t{256} << 20;
constexpr std::size_t kReserve = kGraphReserve + (std::size_t{64} << 20);  // of the device, for the driver

// Of a GPU on which `available` bytes are left beside the reserve when a run is planned.
void set_available(std::size_t available) {
  const auto device = device::open_device({.kind = "cuda"});
  std::size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  emulation::set_machine({.memory = total - free + kReserve + available});
}

// Law 3 where no limit is set: the card itself is one, and a plan knows it before anything is allocated.
TEST_F(CudaEmulated, TheCardBoundsThePlan) {
  Options many = options("cuda", "relay", "auto");
  many.model.layers = 40;
  const MemoryContract roomy = Trainer(many).contract();
  ASSERT_EQ(roomy.stash, "device");
  EXPECT_EQ(roomy.device_late_bytes, kReserve);
  EXPECT_EQ(roomy.device_graph_bytes, kGraphReserve);
  Options without_graphs = many;
  without_graphs.device.graphs = false;
  EXPECT_EQ(Trainer(without_graphs).contract().device_late_bytes, kReserve - kGraphReserve);

  set_available(roomy.device_bytes);
  EXPECT_EQ(Trainer(many).contract().stash, "device");
  set_available(roomy.device_bytes - 1);
  const MemoryContract split = Trainer(many).contract();
  EXPECT_EQ(split.stash, "split");
  ASSERT_LT(split.device_bytes, roomy.device_bytes);
  Options host = many;
  host.transfer.stash = "host";
  const MemoryContract tight = Trainer(host).contract();
  ASSERT_LT(tight.device_bytes, split.device_bytes);

  set_available(tight.device_bytes);
  EXPECT_NO_THROW(Trainer{many});
  set_available(tight.device_bytes - 1);
  try {
    Trainer trainer(many);
    FAIL() << "planned beyond the card";
  } catch (const OutOfMemory& error) {
    const std::string message = error.what();
    for (const std::string& part : {std::to_string(tight.device_bytes), std::string("free of emulated GPU"),
                                    std::string("short by 1 B"), std::string("batch.micro_batch")}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
    }
  }
  // A limit that is set and smaller is the one named.
  many.device.memory = tight.device_bytes - 2;
  try {
    Trainer trainer(many);
    FAIL() << "planned beyond device.memory";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("device.memory is"), std::string::npos) << error.what();
  }
}

// Negative control: on a GPU whose streams wait for nothing, the comparison must fail.
TEST_F(CudaEmulated, AMissingWaitIsNoticed) {
  const Record first = record(options("cuda", "resident", "device"));
  emulation::set_machine({.delay = std::chrono::microseconds(500), .ignores_waits = true});
  bool noticed = false;
  for (int attempt = 0; attempt < 5 && !noticed; ++attempt) {
    try {
      noticed = record(options("cuda", "relay", "host")) != first;
    } catch (const Error&) {
      noticed = true;  // tokens that are none, say
    }
  }
  EXPECT_TRUE(noticed);
}

}  // namespace
}  // namespace l2l

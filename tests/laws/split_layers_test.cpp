// Layers that are split over devices (device.tensor) train like whole ones: the same masks, losses and gradients but
// for the order of sums, and for a given split the same bits however the run is executed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/fault_point.h"
#include "l2l/errors.h"
#include "runtime/plan_run.h"
#include "tests/laws/gradients.h"
#include "tests/laws/small_run.h"
#include "tests/support/refusal.h"

namespace l2l::split_layers_law {
namespace {

using testing::difference;
using testing::FaultPlan;
using testing::Gradients;
using testing::Record;
using testing::SmallRun;

// Of what is emulated, fewer.
const int kSteps = testing::test_device() == "host" ? 6 : 3;

// "llama_kv1": one head of keys and values, which all devices have; "llama_kv2": two, each of which two of four have.
Options options_of(const SmallRun& run, std::int64_t tensor, const std::string& family = "gpt2",
                   std::int64_t groups = 1) {
  Options options = run.options(family);
  options.model.hidden = 32;
  options.model.heads = 4;
  options.model.kv_heads = family == "llama_kv1" ? 1 : family == "llama_kv2" ? 2 : 0;
  options.model.intermediate = 64;
  options.model.sequence = 12;
  options.batch = {.micro_batch = 2, .micro_batches = 8};
  options.transfer.vocabulary_chunk = 300;  // where layers are whole, the table is one, too
  options.device.count = tensor * groups;
  options.device.tensor = tensor;
  options.device.threads = 1;
  options.eps.threads = 2;
  return options;
}

Record record(const Options& options) { return testing::record_of(options, kSteps); }

// `whole_rows`: tensor parallelism alone.
runtime::RunPlan plan_of(const Options& options, bool whole_rows = false) {
  runtime::ResolvedOptions resolved = runtime::resolve(options);
  resolved.whole_rows = whole_rows;
  runtime::RunParts parts = runtime::make_parts(std::move(resolved));
  runtime::Decisions decisions = runtime::fixed_decisions(parts);
  return runtime::RunPlan(std::move(parts), std::move(decisions));
}

Gradients gradients_of(const Options& options, bool whole_rows = false) {
  const runtime::RunPlan plan = plan_of(options, whole_rows);
  runtime::Engine engine(plan, nullptr);
  engine.minibatch().draw(plan.model);
  return testing::gradients_of(plan, engine);
}

LinkCounters counters_of(const runtime::RunPlan& plan) {
  runtime::Engine engine(plan, nullptr);
  engine.minibatch().draw(plan.model);
  engine.train(0, 1e-3);
  return engine.link_counters();
}

double largest_difference(const Record& a, const Record& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    largest = std::max(largest, std::abs(a.losses[i] / b.losses[i] - 1));
  }
  return largest;
}

class SplitFamilies : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, SplitFamilies,
                         ::testing::Values("gpt2", "bert", "llama", "llama_tied", "llama_kv2", "llama_kv1"),
                         [](const auto& family) { return std::string(family.param); });

TEST_P(SplitFamilies, HaveTheGradientsOfWholeLayers) {
  const SmallRun run;
  const Gradients whole = gradients_of(options_of(run, 1, GetParam()));
  for (const std::int64_t tensor : {2, 4}) {
    for (const bool whole_rows : {false, true}) {
      const Gradients split = gradients_of(options_of(run, tensor, GetParam()), whole_rows);
      EXPECT_LE(difference(split, whole), 1e-5) << tensor << ", " << whole_rows;
    }
  }
#ifdef L2L_FAULT_POINTS
  arm_fault_point("tensor.no_sum");
  EXPECT_GT(difference(gradients_of(options_of(run, 2, GetParam())), whole), 1e-2) << "the check sees gradients";
  arm_fault_point("");
#endif
}

TEST(SplitLayers, SumTheGradientsOfHeadsThatSeveralDevicesHave) {
  const SmallRun run;
  for (const char* const family : {"llama_kv2", "llama_kv1"}) {
    const Gradients whole = gradients_of(options_of(run, 1, family));
    const auto keys = [](const Gradients& gradients) { return gradients.at("model.layers.1.self_attn.k_proj.weight"); };
    arm_fault_point("tensor.no_sum_of_shared_heads");
    const Gradients missing = gradients_of(options_of(run, 4, family));
    arm_fault_point("");
    EXPECT_GT(difference({{"keys", keys(missing)}}, {{"keys", keys(whole)}}), 1e-2) << family;
  }
}

// Each element counts once, however many devices have it.
TEST(SplitLayers, ClipByTheNormOfWholeLayers) {
  const SmallRun run;
  const auto clipped = [&](std::int64_t tensor, const char* family) {
    Options options = options_of(run, tensor, family);
    options.optimizer.clip = "global";
    options.optimizer.max_norm = 0.05;
    return record(options);
  };
  const auto largest_of_norms = [](const Record& a, const Record& b) {
    double largest = 0;
    for (std::size_t i = 0; i < a.norms.size(); ++i) largest = std::max(largest, std::abs(a.norms[i] / b.norms[i] - 1));
    return largest;
  };
  for (const char* const family : {"gpt2", "llama_kv2", "llama_kv1"}) {
    const Record whole = clipped(1, family);
    EXPECT_GT(*std::ranges::min_element(whole.norms), 0.05) << "every step is clipped";
    for (const std::int64_t tensor : {2, 4}) {
      const Record split = clipped(tensor, family);
      EXPECT_LE(largest_of_norms(split, whole), 1e-5) << family << ", " << tensor;
      EXPECT_LE(largest_difference(split, whole), 1e-6) << family << ", " << tensor;
    }
  }
  const Record whole = clipped(1, "llama_kv1");
  arm_fault_point("tensor.no_sum_of_shared_heads");
  EXPECT_GT(largest_of_norms(clipped(4, "llama_kv1"), whole), 1e-3);
  arm_fault_point("");
}

TEST_P(SplitFamilies, TrainLikeWholeLayers) {
  const SmallRun run;
  const Record whole = record(options_of(run, 1, GetParam()));
  for (const std::int64_t tensor : {2, 4}) {
    const Record split = record(options_of(run, tensor, GetParam()));
    EXPECT_LE(largest_difference(split, whole), 1e-6) << tensor;
    EXPECT_EQ(record(options_of(run, tensor, GetParam())), split) << tensor;
  }
  EXPECT_LT(whole.losses.back(), whole.losses.front());
}

TEST_P(SplitFamilies, TrainLikeWholeLayersInBf16) {
  const SmallRun run;
  const auto options = [&](std::int64_t tensor) {
    Options bf16 = options_of(run, tensor, GetParam());
    bf16.precision.compute = "bf16";
    return bf16;
  };
  const Gradients whole = gradients_of(options(1));
  const Record losses = record(options(1));
  for (const std::int64_t tensor : {2, 4}) {
    EXPECT_LE(difference(gradients_of(options(tensor)), whole), std::ldexp(1, -6)) << tensor;
    EXPECT_LE(largest_difference(record(options(tensor)), losses), std::ldexp(1, -8)) << tensor;
  }
}

TEST(SplitLayers, HaveTheSameBitsHoweverTheyRun) {
  const SmallRun run;
  for (const char* const family : {"gpt2", "llama", "llama_kv1"}) {
    testing::expect_same_bits(options_of(run, 2, family), record, family,
                              {{"kept, but for what is cheap", [](Options& o) { o.recompute.policy = "min_cut"; }},
                               {"three slots", [](Options& o) { o.transfer.prefetch = 2; }},
                               {"weights that stay", [](Options& o) { o.transfer.resident_layers = 1; }}});
  }
}

// What is chosen is chosen once, by measurements of the first device's share, for all devices: it changes no bit and
// takes the memory that the contract states.
class SplitLayersChoose : public ::testing::Test {
 protected:
  SplitLayersChoose() : before_(std::getenv("L2L_CALIBRATION") == nullptr ? "" : std::getenv("L2L_CALIBRATION")) {
    setenv("L2L_CALIBRATION", (run_.folder() / "calibration.json").c_str(), 1);
  }
  ~SplitLayersChoose() override { setenv("L2L_CALIBRATION", before_.c_str(), 1); }

  static Record record(const Options& options, MemoryContract* contract = nullptr) {
    Trainer trainer(options, {.seconds = 2});
    if (contract != nullptr) *contract = trainer.contract();
    const Record record = testing::record_of(trainer, kSteps);
    EXPECT_EQ(trainer.device_peak_bytes(), trainer.contract().device_bytes);
    return record;
  }

  const SmallRun run_;
  const std::string before_;
};

TEST_F(SplitLayersChoose, WhatFitsWithTheSameBits) {
  for (const char* const family : {"gpt2", "llama_kv1"}) {
    for (const std::int64_t tensor : {2, 4}) {
      Options options = options_of(run_, tensor, family), least = options, most = options;
      least.transfer.stash = "host";
      most.transfer.stash = "device";
      most.recompute.policy = "none";
      const Bytes low = Trainer(least).contract().device_bytes, high = Trainer(most).contract().device_bytes;
      ASSERT_LT(low, high);
      const Record expected = record(options);
      options.recompute.policy = "auto";
      for (const Bytes fourths : {0, 2, 4}) {
        options.device.memory = low + (high - low) * fourths / 4;
        MemoryContract contract;
        EXPECT_EQ(record(options, &contract), expected) << family << ", " << tensor << ", " << fourths;
        EXPECT_LE(contract.device_bytes, options.device.memory);
        EXPECT_FALSE(contract.recomputation.empty());
      }
      options.device.memory = low - 1;
      EXPECT_THROW(Trainer{options}, OutOfMemory);
    }
  }
}

TEST_F(SplitLayersChoose, ProgramsOfAllDevicesWithinABudget) {
  const auto scratch_of_blocks = [](const Options& options) {
    std::vector<Bytes> scratch;  // by device
    const runtime::RunPlan plan = runtime::plan_run(options);
    for (const auto& programs : plan.programs) {
      scratch.push_back(programs->of(plan.model.block(1)).backward->program().scratch_bytes);
    }
    return scratch;
  };
  for (const char* const family : {"gpt2", "llama_kv2"}) {
    Options options = options_of(run_, 4, family);
    options.recompute.policy = "full";
    const Record expected = record(options);
    options.recompute.budget = 1;
    const std::string said = testing::refusal([&] { Trainer trainer(options); });
    const auto begin = said.find("needs ");
    ASSERT_NE(begin, std::string::npos) << said;
    options.recompute.budget = std::stoll(said.substr(said.find('(', begin) + 1));
    EXPECT_EQ(record(options), expected) << family;
    const auto budget = static_cast<Bytes>(options.recompute.budget);
    for (const Bytes bytes : scratch_of_blocks(options)) EXPECT_LE(bytes, budget) << family;
    options.recompute.budget = 0;
    for (const Bytes bytes : scratch_of_blocks(options)) EXPECT_GT(bytes, budget) << family << ": the budget binds";
  }
}

// Programs of one share do not do for another: dropout draws by the number of a row.
TEST(SplitLayers, HaveDecisionsOfTheirShares) {
  const SmallRun run;
  const runtime::RunParts parts = runtime::make_parts(runtime::resolve(options_of(run, 2)));
  const runtime::Decisions decisions = runtime::uniform_policy(parts.model, compiler::remat::Policy::min_cut);
  const models::Model& other = parts.others.front();
  EXPECT_NO_THROW(runtime::verify(runtime::of_share(decisions, other.shard), other));
  EXPECT_NE(testing::refusal([&] { runtime::verify(decisions, other); }).find("the programs are wrong"),
            std::string::npos);
}

TEST(SplitLayers, GroupsOfDevicesShareTheMinibatch) {
  const SmallRun run;
  const Record one = record(options_of(run, 1));
  for (const std::int64_t groups : {2, 4}) {
    const Record several = record(options_of(run, 2, "gpt2", groups));
    EXPECT_LE(largest_difference(several, one), 1e-6) << groups;
    EXPECT_EQ(record(options_of(run, 2, "gpt2", groups)), several) << groups;
  }
}

TEST(SplitLayers, TrainInFp16AndClipGlobally) {
  const SmallRun run;
  const auto options = [&](std::int64_t tensor) {
    Options fp16 = options_of(run, tensor);
    fp16.precision.compute = "fp16";
    fp16.optimizer.clip = "global";
    return fp16;
  };
  const Record whole = record(options(1)), split = record(options(2));
  EXPECT_EQ(split.scales, whole.scales);
  EXPECT_LE(largest_difference(split, whole), 1e-3);
}

// A checkpoint knows nothing of how layers are split.
TEST(SplitLayers, GoOnWithAnotherSplit) {
  for (const char* const family : {"gpt2", "llama_kv1"}) {
    const SmallRun run;
    Trainer whole(options_of(run, 2, family));
    for (int i = 0; i < 3; ++i) whole.step();
    whole.save();
    const Record rest = testing::record_of(whole, 3);
    for (const std::int64_t tensor : {1, 2, 4}) {
      Trainer resumed(options_of(run, tensor, family));
      resumed.resume(run.options().checkpoint.directory);
      const Record record = testing::record_of(resumed, 3);
      EXPECT_LE(largest_difference(record, rest), 1e-6) << family << ", " << tensor;
      EXPECT_EQ(record == rest, tensor == 2) << family << ", " << tensor;
    }
  }
}

// Each device brings its share, once for a visit, and of a head that several have the first; its arena is what the
// contract states.
TEST(SplitLayers, CrossTheLinkOnceInSharesAndTakeWhatWasPlanned) {
  const SmallRun run;
  for (const char* const family : {"gpt2", "llama_kv2", "llama_kv1"}) {
    for (const std::int64_t tensor : {2, 4}) {
      const runtime::RunPlan plan = plan_of(options_of(run, tensor, family));
      const LinkCounters counters = counters_of(plan);
      Bytes weights = 0, gradients = 0;
      for (int device = 0; device < plan.execution.devices(); ++device) {
        const models::Model& model = plan.model_of(device);
        for (LayerIndex layer = 0; layer < model.layers(); ++layer) {
          const bool twice = model.is_block(layer) && layer < model.head() - 1;
          for (const SharedBlock& block : shared_blocks(*model.shares, model.layout, layer)) {
            const Bytes bytes = static_cast<Bytes>(block.rows * block.columns) * sizeof(float);
            weights += (twice ? 2 : 1) * bytes;
            if (block.devices == 0 ? device == 0 : device % block.devices == 0) gradients += bytes;
          }
        }
      }
      EXPECT_EQ(counters.weights_h2d, weights) << family << ", " << tensor;
      EXPECT_EQ(counters.gradients_d2h, gradients) << family << ", " << tensor;
      Bytes once = 0;
      for (LayerIndex layer = 0; layer < plan.model.layers(); ++layer) {
        for (const SharedBlock& whole : shared_blocks(plan.model.layout, plan.model.layout, layer)) {
          once += static_cast<Bytes>(whole.rows * whole.columns) * sizeof(float);
        }
      }
      EXPECT_EQ(counters.gradients_d2h, once) << family << ", " << tensor;
      EXPECT_EQ(plan.device_peak_bytes(), plan.arena->bytes()) << family << ", " << tensor;
    }
  }
}

// In a step, for each microbatch: all-gathers and reduce-scatters of a layer's rows, forward and backward. Each brings
// a device (T - 1) / T of them.
struct Exchanges {
  int block, embedding, head;
};

Bytes rows_exchanged(const Options& options, const Exchanges& exchanges) {
  const auto tensor = static_cast<Bytes>(options.device.tensor);
  const auto rows = static_cast<Bytes>(options.batch.micro_batch * options.model.sequence);
  const Bytes once = (tensor - 1) * rows / tensor * static_cast<Bytes>(options.model.hidden) * sizeof(float);
  const Bytes softmax = (tensor - 1) * rows * 16;  // the head's statistics of each row
  const auto times = static_cast<Bytes>(options.model.layers * exchanges.block + exchanges.embedding + exchanges.head);
  return tensor * static_cast<Bytes>(options.batch.micro_batches) * (times * once + softmax);
}

// Korthikanti et al., Figure 5 and section 4.2.2: four collectives in a block's forward pass, four in its backward
// pass, and both products' inputs gathered again there, of which only shares are kept. That is the volume of tensor
// parallelism alone, Figure 4, which sums twice in each pass, but for what is gathered again.
TEST(SplitLayers, ExchangeWhatThePaperSays) {
  const SmallRun run;
  for (const char* const family : {"gpt2", "bert", "llama", "llama_kv1"}) {
    for (const std::int64_t tensor : {2, 4}) {
      const auto counted = [&](const char* policy, bool whole_rows, const Exchanges& exchanges) {
        Options options = options_of(run, tensor, family);
        options.recompute.policy = policy;
        const Bytes moved = counters_of(plan_of(options, whole_rows)).rows_exchanged;
        EXPECT_EQ(moved, rows_exchanged(options, exchanges)) << family << ", " << tensor << ", " << policy;
        Options deeper = options;
        deeper.model.layers += 2;
        const Bytes of_two = counters_of(plan_of(deeper, whole_rows)).rows_exchanged - moved;
        EXPECT_EQ(of_two, rows_exchanged(deeper, exchanges) - rows_exchanged(options, exchanges)) << family;
      };
      counted("none", false, {.block = 4 + 4 + 2, .embedding = 2, .head = 2});
      counted("none", true, {.block = 4 + 4, .embedding = 4, .head = 0});
      // Computed again: two inputs gathered, and one sum, or both where a norm follows the second.
      const int again = 2 + (std::string(family) == "bert" ? 2 : 1);
      counted("full", false, {.block = 4 + 4 + again, .embedding = 2, .head = 2});
    }
  }
  Options options = options_of(run, 2);
  options.recompute.policy = "none";
  arm_fault_point("remat.keep_gathered");
  EXPECT_EQ(counters_of(plan_of(options)).rows_exchanged,
            rows_exchanged(options, {.block = 4 + 4, .embedding = 2, .head = 2}))
      << "the check sees what is not gathered again";
  arm_fault_point("");
}

// Once a step, among those that have them alike.
TEST(SplitLayers, ExchangeTheGradientsOfWhatSeveralDevicesHave) {
  const SmallRun run;
  for (const char* const family : {"gpt2", "bert", "llama_kv2", "llama_kv1"}) {
    for (const std::int64_t tensor : {2, 4}) {
      const runtime::RunPlan plan = plan_of(options_of(run, tensor, family));
      Bytes expected = 0;
      for (int device = 0; device < plan.execution.devices(); ++device) {
        for (const GroupSpec& group : plan.model_of(device).shares->groups) {
          for (const ParameterSpec& parameter : group.parameters) {
            const std::int64_t devices = parameter.share ? parameter.share->devices : tensor;
            expected += static_cast<Bytes>((devices - 1) * parameter.shape.elements()) * sizeof(float);
          }
        }
      }
      EXPECT_EQ(counters_of(plan).gradients_exchanged, expected) << family << ", " << tensor;
      EXPECT_GT(expected, 0u);
    }
  }
}

TEST(SplitLayers, ReportWhatTheyExchange) {
  const SmallRun run;
  Trainer split(options_of(run, 2)), whole(options_of(run, 1));
  const StepReport report = split.step(), plain = whole.step();
  EXPECT_EQ(report.rows_exchanged_bytes, split.link_counters().rows_exchanged);
  EXPECT_EQ(report.exchanged_bytes, split.link_counters().gradients_exchanged);
  EXPECT_NE(to_json(report).find("\"rows_exchanged_bytes\":"), std::string::npos);
  EXPECT_EQ(to_json(plain).find("rows_exchanged_bytes"), std::string::npos);
}

// A block of Megatron's 22B model at 16 bits, from the arena: sbh (34/t), and sbh (10 + 24/t) of tensor parallelism
// alone (Korthikanti et al., Equations 2 and 4). Not kept are dropout's masks; kept besides, two norms' statistics and
// a logsumexp for each row and head. Layer inputs, 2 sbh of these, are in the stash.
TEST(SplitLayers, KeepOfALargeBlockWhatThePaperSays) {
  const SmallRun run;
  const auto plan_for = [&](std::int64_t tensor, bool whole_rows) {
    Options options = options_of(run, tensor);
    options.device.kind = "host";  // on GPUs programs run once before a plan is made
    options.model.layers = 1;
    options.model.hidden = 6144;
    options.model.heads = 64;
    options.model.intermediate = 4 * 6144;
    options.model.vocabulary = 1024;
    options.model.sequence = 2048;
    options.batch = {.micro_batch = 4, .micro_batches = 1};
    options.precision.compute = "bf16";
    options.recompute.policy = "none";
    options.transfer = {.stash = "device", .vocabulary_chunk = 1024};
    return plan_of(options, whole_rows);
  };
  const auto bytes_of = [](const runtime::RunPlan& plan, runtime::ArenaPart part) {
    Bytes bytes = 0;
    for (const device::BufferView& view : plan.arena->views(part, {nullptr, plan.arena->bytes()})) bytes += view.size;
    return bytes;
  };
  const Bytes sb = 2048 * 4, sbh = sb * 6144, masks = 2 * sbh, statistics = 2 * 8 * sb, logsumexp = 4 * 64 * sb;
  const auto expected = [=](Bytes rows_t, Bytes t) {
    return (10 * sbh - masks + statistics) / rows_t + (24 * sbh + logsumexp) / t;
  };
  for (const Bytes t : {2, 4, 8}) {
    for (const bool whole_rows : {false, true}) {
      const runtime::RunPlan plan = plan_for(static_cast<std::int64_t>(t), whole_rows);
      const Bytes input = bytes_of(plan, runtime::ArenaPart::stash) / 2;  // the head's is as large
      EXPECT_EQ(input, 2 * sbh / (whole_rows ? 1 : t)) << t;
      EXPECT_EQ(input + bytes_of(plan, runtime::ArenaPart::saved), expected(whole_rows ? 1 : t, t)) << t;
    }
  }
  arm_fault_point("remat.keep_gathered");
  EXPECT_GT(bytes_of(plan_for(2, false), runtime::ArenaPart::saved), expected(2, 2)) << "both products' whole inputs";
  arm_fault_point("");
}

TEST(SplitLayers, TakeLessMemoryOfEachDevice) {
  const SmallRun run;
  Options whole = options_of(run, 1), split = options_of(run, 4);
  whole.transfer.stash = split.transfer.stash = "device";
  EXPECT_LT(2 * Trainer(split).contract().device_bytes, Trainer(whole).contract().device_bytes);
}

// Law 8, with a failure on one of the devices, at 240 moments, most of them in the middle of what they exchange.
TEST(SplitLayers, AFailureOfOneDeviceEndsAll) {
  const SmallRun run;
  for (std::int64_t call = 0; call < 120; call += 2) {
    for (const int which : {0, 1}) {
      FaultPlan copies, launches;
      copies.fail_copy = launches.fail_launch = call;
      for (const FaultPlan& faults : {copies, launches}) {
        int made = 0;
        const auto wrap = [&](std::unique_ptr<device::HostDevice> device) -> std::unique_ptr<device::Device> {
          if (made++ != which) return device;
          return std::make_unique<testing::FaultDevice>(std::move(device), faults);
        };
        const std::string said = testing::refusal([&] { testing::record_on(options_of(run, 2), 3, wrap); });
        EXPECT_NE(said.find("failed, as planned"), std::string::npos) << call << ", device " << which << ": " << said;
      }
    }
  }
}

TEST(SplitLayers, RefuseWhatIsNotBuilt) {
  const SmallRun run;
  const auto refusal = [&](const std::function<void(Options&)>& change) {
    Options options = options_of(run, 2);
    change(options);
    return testing::refusal([&] { Trainer trainer(options); });
  };
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(refusal([](Options& o) { o.device.count = 3; }), "device.tensor = 2 does not divide device.count = 3");
  expect(refusal([](Options& o) { o.model.heads = 1; }), "1 heads (model.heads) cannot be split over 2 devices");
  expect(refusal([](Options& o) { o.lora.rank = 2; }), "it has adapters (lora.rank)");
  expect(refusal([](Options& o) { o.model.reversible = "fixed"; }), "model.reversible is set");
  expect(refusal([](Options& o) { o.batch.parts = 2; }), "batch.parts is not built");
  Trainer trainer(options_of(run, 2));
  const std::vector<std::int32_t> tokens{1, 2, 3};
  expect(testing::refusal([&] { trainer.generate(tokens, {.tokens = 2}); }), "device.tensor = 1, too");
}

}  // namespace
}  // namespace l2l::split_layers_law

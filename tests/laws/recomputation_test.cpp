// Law 2 for recomputation: which values are kept for the backward pass, where, and which are recomputed there changes
// no bit. The bytes of the stash must also equal what each policy keeps, written out by hand. One law, one file: long
// because it has every policy, and a negative control for each way to break it.
#include <gtest/gtest.h>

#include "core/fault_point.h"
#include "tests/laws/small_run.h"
#include "tests/support/instrumented.h"

namespace l2l::recomputation_law {
namespace {

using testing::FaultPlan;
using testing::Record;
using testing::SmallRun;
using namespace std::chrono_literals;

constexpr int kSteps = 6;

struct Case {
  std::string family, compute, attention = "fused";
};

const std::vector<std::string> kPolicies = {"full", "selective", "min_cut", "none"};

Options options_of(const SmallRun& run, const Case& c, const std::string& policy) {
  Options options = run.options(c.family);
  options.precision.compute = c.compute;
  options.model.attention = c.attention;
  options.recompute.policy = policy;
  return options;
}

// Bytes that a microbatch keeps of one block beside its input: each value begins at a multiple of 256
// (differentiate.h), the last one stands last. R rows; columns of each row, and bytes an element.
class Kept {
 public:
  explicit Kept(std::uint64_t rows) : rows_(rows) {}
  void add(std::initializer_list<std::uint64_t> columns, std::uint64_t element) {
    for (const std::uint64_t c : columns) bytes_ = (bytes_ + 255) / 256 * 256 + rows_ * c * element;
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint64_t rows_, bytes_ = 0;
};

std::uint64_t saved_bytes(const Options& options, const std::string& policy) {
  if (policy == "full") return 0;
  const ModelOptions& m = options.model;
  const auto h = static_cast<std::uint64_t>(m.hidden), a = static_cast<std::uint64_t>(m.heads);
  const std::uint64_t element = options.precision.compute == "fp32" ? 4 : 2;
  const bool llama = m.architecture == "llama", all = policy != "min_cut";
  Kept kept(static_cast<std::uint64_t>(options.batch.micro_batch * m.sequence));
  kept.add({a}, 4);                        // attention's logsumexp
  if (all) kept.add({1, 1}, 4);            // a statistic of each norm,
  if (all && !llama) kept.add({1, 1}, 4);  // two of those with a mean
  if (all) kept.add({h, h}, element);      // their results
  const std::uint64_t qkv = llama ? h + 2 * h / a * static_cast<std::uint64_t>(m.kv_heads) : 3 * h;
  kept.add({qkv, h, h}, element);  // queries, keys and values; what attention makes; the sum
  const std::uint64_t wide = llama ? static_cast<std::uint64_t>(m.intermediate) : 4 * h;
  kept.add({llama ? 2 * wide : wide}, element);  // before the activation
  if (all) kept.add({wide}, element);            // behind it
  return kept.bytes();
}

class Recomputation : public ::testing::TestWithParam<Case> {
 protected:
  SmallRun run_;
};

TEST_P(Recomputation, EveryPolicyGivesTheSameBits) {
  std::optional<Record> first;
  for (const std::string& policy : kPolicies) {
    for (const auto& [execution, stash] : {std::pair{"relay", "host"}, {"relay", "device"}, {"resident", "host"}}) {
      Options options = options_of(run_, GetParam(), policy);
      options.device.execution = execution;
      options.transfer.stash = stash;
      Trainer trainer(options);
      const Record record = testing::record_of(trainer, kSteps);
      if (!first) first = record;
      EXPECT_EQ(record, *first) << policy << " " << execution << " " << stash;
      EXPECT_EQ(trainer.device_peak_bytes(), trainer.contract().device_bytes) << policy;
    }
  }
  EXPECT_LT(first->losses.back(), first->losses.front());
}

INSTANTIATE_TEST_SUITE_P(Families, Recomputation,
                         ::testing::Values(Case{"gpt2", "fp32"}, Case{"gpt2", "bf16"}, Case{"gpt2", "fp16"},
                                           Case{"bert", "fp32"}, Case{"bert", "bf16"}, Case{"llama", "fp32"},
                                           Case{"llama", "bf16"}, Case{"gpt2", "fp32", "core"},
                                           Case{"llama", "bf16", "core"}),
                         [](const auto& info) {
                           return info.param.family + "_" + info.param.compute + "_" + info.param.attention;
                         });

TEST(RecomputationBytes, TheStashCarriesTheLayerInputsAndWhatThePolicyKeeps) {
  const SmallRun run;
  for (const Case& c : {Case{"gpt2", "fp32"}, Case{"gpt2", "bf16"}, Case{"llama", "bf16"}}) {
    for (const std::string& policy : kPolicies) {
      Options options = options_of(run, c, policy);
      options.transfer.stash = "host";
      Trainer trainer(options);
      trainer.step();
      const std::uint64_t input =
          static_cast<std::uint64_t>(options.batch.micro_batch * options.model.sequence * options.model.hidden) *
          (c.compute == "fp32" ? 4 : 2);
      const std::uint64_t items = static_cast<std::uint64_t>(options.model.layers * options.batch.micro_batches);
      const std::uint64_t expected = items * (input + saved_bytes(options, policy));
      EXPECT_EQ(trainer.link_counters().stash_d2h, expected) << c.family << " " << policy;
      EXPECT_EQ(trainer.link_counters().stash_h2d, expected) << c.family << " " << policy;
    }
  }
}

// With the stash on the host no policy makes device memory grow with depth.
TEST(RecomputationBytes, DeviceMemoryDoesNotDependOnDepth) {
  const SmallRun run;
  for (const std::string& policy : kPolicies) {
    std::optional<std::uint64_t> bytes;
    for (const std::int64_t layers : {2, 5, 64}) {
      Options options = options_of(run, {"gpt2", "bf16"}, policy);
      options.model.layers = layers;
      options.transfer.stash = "host";
      Trainer trainer(options);
      trainer.step();
      if (!bytes) bytes = trainer.device_peak_bytes();
      EXPECT_EQ(trainer.device_peak_bytes(), *bytes) << policy << " " << layers;
    }
  }
}

// Delays every copy and launch; the slow direction of the link alternates.
FaultPlan delays(std::uint64_t seed) {
  FaultPlan plan;
  plan.seed = seed;
  plan.copy_h2d_delay = seed % 2 == 0 ? 50us : 800us;
  plan.copy_d2h_delay = seed % 2 == 0 ? 800us : 50us;
  plan.launch_delay = 200us;
  plan.poison = true;
  return plan;
}

// Blocks of one type that do different things, keep them at different places, and keep their weights or not.
class BlocksMayDiffer : public ::testing::Test {
 protected:
  BlocksMayDiffer() : options_(options_of(run_, {"gpt2", "fp32"}, "full")) {
    options_.model.layers = 5;
    full_ = testing::record_on(options_, kSteps, testing::honest);
    const models::Model model = runtime::plan_run(options_).model;
    const compiler::Graph& forward = model.type(model.block(1)).forward;
    for (const std::string& policy : kPolicies) {
      mixed_.policies.push_back(
          {policy, differentiate(forward, values_to_save(forward, compiler::remat::parse_policy(policy)))});
    }
    mixed_.policy_of = {3, 0, 2, 3, 1};
  }
  Record record(const FaultPlan& faults = {}) const {
    return testing::record_on(
        options_, kSteps, testing::faulty(faults), [] {}, [](runtime::Engine&, int) {}, &mixed_);
  }

  SmallRun run_;
  Options options_;
  Record full_;
  runtime::Decisions mixed_;
};

TEST_F(BlocksMayDiffer, InWhatTheyKeep) {
  for (const char* const stash : {"host", "device"}) {
    for (const char* const execution : {"relay", "resident"}) {
      options_.transfer.stash = stash;
      options_.device.execution = execution;
      EXPECT_EQ(record(), full_) << stash << " " << execution;
    }
  }
}

TEST_F(BlocksMayDiffer, InWhereTheyKeepIt) {
  using runtime::StashPlace;
  // The second and the fourth save other values than the first, which leaves; the last one's stash leaves or stays.
  for (const StashPlace last : {StashPlace::host, StashPlace::device}) {
    for (const bool stay : {false, true}) {
      mixed_.placements = {{StashPlace::host, stay},
                           {StashPlace::device, !stay},
                           {StashPlace::host, stay},
                           {StashPlace::device, false},
                           {last, stay}};
      for (const char* const execution : {"relay", "resident"}) {
        options_.device.execution = execution;
        EXPECT_EQ(record(), full_) << name_of(last) << " " << stay << " " << execution;
      }
      options_.device.execution = "relay";
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        EXPECT_EQ(record(delays(seed)), full_) << name_of(last) << " " << stay << " " << seed;
      }
    }
  }
}

#ifdef L2L_FAULT_POINTS
// Negative control: two layers whose weights stay share a slot.
TEST_F(BlocksMayDiffer, NegativeControlASharedSlotIsCaught) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a data race on purpose";
#endif
  options_.transfer.resident_layers = 3;
  EXPECT_EQ(record(), full_);
  arm_fault_point("weights.share_slot");
  const Record shared = record();
  arm_fault_point("");
  EXPECT_NE(shared, full_);
}
#endif

// What is chosen by measured times, which differ between machines, changes no bit, fits, and is what the contract says.
class RecomputationChoice : public ::testing::Test {
 protected:
  RecomputationChoice() : before_(std::getenv("L2L_CALIBRATION") == nullptr ? "" : std::getenv("L2L_CALIBRATION")) {
    setenv("L2L_CALIBRATION", (run_.folder() / "calibration.json").c_str(), 1);
  }
  ~RecomputationChoice() override { setenv("L2L_CALIBRATION", before_.c_str(), 1); }

  Record record(const Options& options, MemoryContract* contract = nullptr) const {
    Trainer trainer(options);
    if (contract != nullptr) *contract = trainer.contract();
    const Record record = testing::record_of(trainer, kSteps);
    EXPECT_EQ(trainer.device_peak_bytes(), trainer.contract().device_bytes);
    return record;
  }

  SmallRun run_;
  const std::string before_;
};

TEST_F(RecomputationChoice, AutoFitsAndGivesTheSameBits) {
  const Options full = options_of(run_, {"gpt2", "bf16"}, "full");
  Options least = full, most = options_of(run_, {"gpt2", "bf16"}, "none");
  least.transfer.stash = "host";
  most.transfer.stash = "device";
  const std::uint64_t low = Trainer(least).contract().device_bytes, high = Trainer(most).contract().device_bytes;
  ASSERT_LT(low, high);
  const Record expected = record(full);
  for (int i = 0; i <= 4; ++i) {
    Options options = options_of(run_, {"gpt2", "bf16"}, "auto");
    options.device.memory = low + (high - low) * static_cast<std::uint64_t>(i) / 4;
    MemoryContract contract;
    EXPECT_EQ(record(options, &contract), expected) << i;
    EXPECT_LE(contract.device_bytes, options.device.memory);
    EXPECT_FALSE(contract.recomputation.empty());
  }
  Options options = options_of(run_, {"gpt2", "bf16"}, "auto");
  options.device.memory = low - 1;
  EXPECT_THROW(Trainer{options}, OutOfMemory);
}

// Measured on a shallower model, whose blocks are of the kinds that they stand for.
TEST_F(RecomputationChoice, BlocksOfSeveralKindsChooseToo) {
  for (const int layers : {4, 7}) {
    for (const std::string architecture : {"qwen2", "gemma2", "gemma3"}) {
      Options options = options_of(run_, {"llama", "fp32"}, "full");
      options.model.architecture = architecture;
      options.model.layers = layers;
      options.model.sliding_window = 5;
      if (architecture == "qwen2")
        options.model.layer_types = {"full_attention", "full_attention", "sliding_attention"};
      const Record expected = record(options);
      options.recompute.policy = "auto";
      MemoryContract contract;
      EXPECT_EQ(record(options, &contract), expected) << architecture << " " << layers;
      EXPECT_FALSE(contract.recomputation_summary.empty());
    }
  }
  // A list that is longer than the shallower model.
  Options options = options_of(run_, {"llama", "fp32"}, "auto");
  options.model.architecture = "qwen2";
  options.model.layer_types = {"full_attention", "full_attention", "full_attention"};
  EXPECT_NO_THROW(Trainer{options});
}

// Where the link is the bottleneck, memory is spent on what saves transfers: stashes, and weights that stay.
TEST_F(RecomputationChoice, OneKnobDecidesWhatStaysOnTheDevice) {
  Options options = options_of(run_, {"gpt2", "fp32"}, "full");
  options.model.layers = 6;
  options.precision.gradients = "bf16";
  const Record expected = record(options);
  options.transfer.link_bandwidth = 8'000'000;
  options.transfer.stash = "host";
  const std::uint64_t low = Trainer(options).contract().device_bytes;
  options.transfer.stash = "auto";
  options.recompute.policy = "auto";
  MemoryContract all;
  EXPECT_EQ(record(options, &all), expected);
  EXPECT_EQ(all.stash, "device");
  if (!testing::kInstrumented) {
    EXPECT_EQ(all.resident_layers, 5);  // the last one stays while the head runs, without a place of its own
  }
  for (const std::uint64_t percent : {0, 10, 20}) {
    options.device.memory = low + (all.device_bytes - low) * percent / 100;
    MemoryContract contract;
    EXPECT_EQ(record(options, &contract), expected) << percent;
    EXPECT_LE(contract.device_bytes, options.device.memory);
  }
  options.transfer.resident_layers = 2;
  options.transfer.stash = "host";
  options.device.memory = all.device_bytes;
  MemoryContract set;
  EXPECT_EQ(record(options, &set), expected);
  EXPECT_EQ(set.resident_layers, 2);
  EXPECT_EQ(set.stash, "host");
}

// A microbatch that the options leave open: the bits are those of a run whose options set the chosen one.
TEST_F(RecomputationChoice, AMicrobatchThatIsLeftOpenIsChosen) {
  Options options = options_of(run_, {"gpt2", "fp32"}, "auto");
  options.batch = {.minibatch = 8, .micro_batch = BatchOptions::kChosen};
  Trainer chosen(options);
  const BatchOptions batch = chosen.options().batch;
  EXPECT_EQ(batch.micro_batch * batch.micro_batches, 8);
  EXPECT_TRUE(chosen.contract().recomputation.front().starts_with("microbatch: "))
      << chosen.contract().recomputation[0];
  const Record expected = testing::record_of(chosen, kSteps);
  Options set = options_of(run_, {"gpt2", "fp32"}, "full");
  set.batch = {.micro_batch = batch.micro_batch, .micro_batches = batch.micro_batches};
  EXPECT_EQ(record(set), expected);
  // A checkpoint with another microbatch is not resumed.
  Options other = set;
  other.batch.micro_batch = batch.micro_batch == 1 ? 2 : 1;
  other.batch.micro_batches = 8 / other.batch.micro_batch;
  other.checkpoint.directory = run_.folder() / "other";
  {
    Trainer trainer(other);
    trainer.step();
    trainer.save();
  }
  EXPECT_THROW(Trainer(options).resume(other.checkpoint.directory), BadInput);
  Trainer kept(options_to_resume(options, other.checkpoint.directory));
  kept.resume(other.checkpoint.directory);
  EXPECT_EQ(kept.options().batch.micro_batch, other.batch.micro_batch);
  // Memory for the layers of a single sequence at a time.
  set.batch = {.micro_batch = 1, .micro_batches = 8};
  set.transfer.stash = "host";
  options.transfer.stash = "host";
  options.device.memory = Trainer(set).contract().device_bytes;
  EXPECT_EQ(Trainer(options).options().batch.micro_batch, 1);
}

TEST_F(RecomputationChoice, ABudgetOfScratchGivesTheSameBits) {
  for (const char* const policy : {"full", "min_cut"}) {
    Options options = options_of(run_, {"gpt2", "fp32"}, policy);
    const Record expected = record(options);
    options.recompute.budget = 1;
    std::uint64_t least = 0;
    try {
      Trainer trainer(options);
      FAIL() << "a byte of scratch was enough";
    } catch (const OutOfMemory& error) {
      const std::string message = error.what();
      const auto begin = message.find("needs ");
      least = std::stoull(message.substr(message.find('(', begin) + 1));
    }
    options.recompute.budget = least;
    EXPECT_EQ(record(options), expected) << policy;
    if (policy == std::string("full")) {
      options.recompute.policy = "budget";
      EXPECT_EQ(record(options), expected);
      options.recompute.policy = policy;
    }
    options.recompute.budget = least - 1;
    EXPECT_THROW(Trainer{options}, OutOfMemory) << policy;
  }
}

TEST_F(RecomputationChoice, ReversibleBlocksThatKeepTheirInputsChooseToo) {
  Options options = options_of(run_, {"gpt2", "fp32"}, "full");
  options.model.reversible = "fixed";
  options.transfer.stash = "host";
  const Record full = record(options);
  options.recompute.budget = 1 << 20;
  EXPECT_EQ(record(options), full);
  options.recompute = {.policy = "auto", .budget = 0};
  EXPECT_EQ(record(options), full);
}

TEST_F(RecomputationChoice, WhatCannotBeCombinedIsRefused) {
  EXPECT_THROW(Trainer{options_of(run_, {"gpt2", "fp32"}, "budget")}, BadInput);
  Options options = options_of(run_, {"gpt2", "fp32"}, "none");
  options.model.reversible = "fixed";
  EXPECT_THROW(Trainer{options}, BadInput);
  options.transfer.stash = "host";  // keeps the inputs, and more
  EXPECT_EQ(record(options), record([&] {
              Options full = options;
              full.recompute.policy = "full";
              return full;
            }()));
}

// Saved values leave and come back under delays that move every copy and launch.
class RecomputationDelays : public ::testing::TestWithParam<std::string> {
 protected:
  Record record(const FaultPlan& faults) const {
    Options options = options_of(run_, {"gpt2", "fp32"}, GetParam());
    options.transfer.stash = "host";
    return testing::record_on(options, kSteps, testing::faulty(faults));
  }
  SmallRun run_;
};

TEST_P(RecomputationDelays, ChangeNoBit) {
  const Record honest = record({});
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    EXPECT_EQ(record(delays(seed)), honest) << seed;
  }
}

#ifdef L2L_FAULT_POINTS
// Negative control: two microbatches share a place in host memory.
TEST_P(RecomputationDelays, NegativeControlSharedPlacesAreCaught) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a data race on purpose";
#endif
  const Record honest = record({});
  arm_fault_point("stash.reuse_slot");
  const Record shared = record({});
  arm_fault_point("");
  EXPECT_NE(shared, honest);
}
#endif

INSTANTIATE_TEST_SUITE_P(Policies, RecomputationDelays, ::testing::Values("min_cut", "none"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace l2l::recomputation_law

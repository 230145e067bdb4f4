// Law 2 of recomputation: what survives from the forward to the backward visit, where, and what runs again there,
// changes no bit. On the way, the bytes of the stash equal what each policy keeps, written out by hand.
#include <gtest/gtest.h>

#include "core/fault_point.h"
#include "tests/laws/small_run.h"

namespace l2l {
namespace {

using device::FaultPlan;
using testing::Record;
using testing::SmallRun;
using namespace std::chrono_literals;

constexpr int kSteps = 6;

struct Case {
  std::string family, compute;
};

const std::vector<std::string> kPolicies = {"full", "selective", "min_cut", "none"};

Options options_of(const SmallRun& run, const Case& c, const std::string& policy) {
  Options options = run.options(c.family);
  options.precision.compute = c.compute;
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
                                           Case{"llama", "bf16"}),
                         [](const auto& info) { return info.param.family + "_" + info.param.compute; });

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

// The way out and the way back of what is saved, under delays that move every copy and launch.
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
    FaultPlan delays;
    delays.seed = seed;
    delays.copy_h2d_delay = seed % 2 == 0 ? 50us : 800us;
    delays.copy_d2h_delay = seed % 2 == 0 ? 800us : 50us;
    delays.launch_delay = 200us;
    delays.poison = true;
    EXPECT_EQ(record(delays), honest) << seed;
  }
}

#ifdef L2L_FAULT_POINTS
// Twin: two microbatches share a place in host memory.
TEST_P(RecomputationDelays, TwinSharedPlacesAreCaught) {
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
}  // namespace l2l

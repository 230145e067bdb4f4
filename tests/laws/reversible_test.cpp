// Reversible blocks: gradients equal those of the same model with stored layer inputs, nothing is stashed, device
// memory does not depend on depth, and the laws that hold for other models hold for these.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <sstream>

#include "core/fault_point.h"
#include "tests/laws/measured_memory.h"
#include "tests/laws/outcome.h"
#include "tests/laws/small_run.h"
#include "tests/laws/watching_device.h"

namespace l2l::reversible_law {
namespace {

using testing::Outcome;
using testing::Record;
using testing::Seen;
using testing::SmallRun;

constexpr std::int64_t kDeep = 48, kChunkRows = 72;
constexpr double kFloatTolerance = 1e-5;

Options options_of(const SmallRun& run, const std::string& reversible, const std::string& compute = "fp32",
                   const std::string& family = "gpt2") {
  Options options = run.options(family);
  options.model.reversible = reversible;
  options.precision.compute = compute;
  return options;
}

Options with_stash(Options options, const std::string& stash) {
  options.transfer.stash = stash;
  return options;
}

Options deep(Options options) {
  options.model.layers = kDeep;
  return options;
}

// Of one step.
Seen watch(const Options& options) {
  Seen seen;
  testing::record_on(options, 1, [&](std::unique_ptr<device::HostDevice> device) {
    return std::make_unique<testing::WatchingDevice>(std::move(device), seen);
  });
  return seen;
}

double norm(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

// The largest over the layers.
double difference(const Seen& a, const Seen& b) {
  EXPECT_EQ(a.gradients.size(), b.gradients.size());
  double largest = 0;
  for (const auto& [layer, gradients] : b.gradients) {
    std::vector<float> apart = a.gradients.at(layer);
    for (std::size_t i = 0; i < apart.size(); ++i) apart[i] -= gradients[i];
    largest = std::max(largest, norm(apart) / norm(gradients));
  }
  return largest;
}

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

class Armed {
 public:
  explicit Armed([[maybe_unused]] const char* name) {
#ifdef L2L_FAULT_POINTS
    arm_fault_point(name);
#endif
  }
  ~Armed() {
#ifdef L2L_FAULT_POINTS
    arm_fault_point("");
#endif
  }
};

std::string text(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

Record train(const Options& options, int steps) { return testing::record_of(options, steps); }

TEST(Reversible, FixedPointGivesTheBitsOfStoredInputsAtFortyEightLayers) {
  const SmallRun run;
  for (const char* const compute : {"fp32", "bf16", "fp16"}) {
    const Options options = deep(options_of(run, "fixed", compute));
    const Record rebuilt = train(options, 4);
    EXPECT_EQ(rebuilt, train(with_stash(options, "device"), 4)) << compute;
    EXPECT_EQ(rebuilt, train(with_stash(options, "host"), 4)) << compute;
  }
  const Options options = deep(options_of(run, "fixed"));
  const Seen rebuilt = watch(options);
  EXPECT_EQ(rebuilt.gradients, watch(with_stash(options, "device")).gradients);
  EXPECT_FALSE(rebuilt.embedded.empty());
}

TEST(Reversible, FloatingPointGivesTheGradientsOfStoredInputsWithinTolerance) {
  const SmallRun run;
  const Options options = deep(options_of(run, "float"));
  const Seen rebuilt = watch(options), stored = watch(with_stash(options, "device"));
  const double apart = difference(rebuilt, stored);
  RecordProperty("difference", text(apart));
  EXPECT_LE(apart, kFloatTolerance);
  // The bits differ, so the comparison of the fixed-point mode can fail.
  EXPECT_NE(rebuilt.gradients, stored.gradients);
  EXPECT_NE(train(options, 4), train(with_stash(options, "device"), 4));
  Options other = options;
  other.run.seed = 2;
  EXPECT_GT(difference(watch(other), stored), kFloatTolerance);
}

#ifdef L2L_FAULT_POINTS
TEST(ReversibleNegativeControl, OneUnitOfOneElementOfTheRebuiltStreamIsCaught) {
  const SmallRun run;
  const Options options = options_of(run, "fixed");
  const Record honest = train(with_stash(options, "device"), 4);
  const Armed armed("streams.rebuilt_otherwise");
  EXPECT_EQ(train(with_stash(options, "device"), 4), honest);  // which rebuilds nothing
  EXPECT_NE(train(options, 4), honest);
}
#endif

// The two streams began equal, so their difference shows how far they have drifted.
TEST(Reversible, TheReportedDriftIsThatOfTheEmbeddingsOutput) {
  const SmallRun run;
  for (const std::int64_t layers : {1, 8, 48}) {
    Options options = options_of(run, "float");
    options.model.layers = layers;
    options.batch.micro_batches = 1;
    const Seen seen = watch(options);
    std::vector<float> apart = floats_of(seen.rebuilt);
    const std::vector<float> before = floats_of(seen.embedded);
    ASSERT_EQ(apart.size(), before.size());
    for (std::size_t i = 0; i < apart.size(); ++i) apart[i] -= before[i];
    const double drift = norm(apart) / norm(before);
    Trainer trainer(options);
    const double reported = trainer.step().stream_drift.value();
    RecordProperty("drift of " + std::to_string(layers), text(reported));
    EXPECT_GT(reported, drift / 2) << layers;
    EXPECT_LT(reported, drift * 2) << layers;
    EXPECT_LT(reported, kFloatTolerance);
  }
}

TEST(Reversible, OnlyWhatIsRebuiltInFloatingPointReportsDrift) {
  const SmallRun run;
  const Options options = deep(options_of(run, "fixed", "bf16"));
  Trainer trainer(options);
  EXPECT_FALSE(trainer.step().stream_drift.has_value());
  Trainer floating(with_stash(options_of(run, "float"), "device"));
  EXPECT_FALSE(floating.step().stream_drift.has_value());
  const std::string json = to_json(StepReport{});
  EXPECT_EQ(json.find("stream_drift"), std::string::npos);
  StepReport report;
  report.stream_drift = 0.125;
  EXPECT_NE(to_json(report).find("\"stream_drift\":0.125"), std::string::npos);
}

struct Setting {
  const char *reversible, *compute, *family;
  std::int64_t chunk;
  const char* update;
};

class ReversibleSettings : public ::testing::TestWithParam<Setting> {
 protected:
  Options options() const {
    Options options = options_of(run_, GetParam().reversible, GetParam().compute, GetParam().family);
    options.transfer.vocabulary_chunk = GetParam().chunk;
    options.optimizer.update = GetParam().update;
    return options;
  }
  SmallRun run_;
};

struct Ran {
  Outcome outcome;
  LinkCounters counters;
};

Ran ran(const Options& options) {
  Trainer trainer(options);
  Ran ran;
  for (int step = 0; step < 5; ++step) ran.outcome.losses.push_back(trainer.step().loss);
  ran.counters = trainer.link_counters();
  ran.outcome.validation = trainer.validation_loss().value();
  ran.outcome.tokens = trainer.generate(std::vector<std::int32_t>{'a', 'b'}, {.tokens = 16, .temperature = 0});
  ran.outcome.hash = trainer.weights_hash();
  EXPECT_EQ(trainer.contract().device_bytes, trainer.device_peak_bytes());
  return ran;
}

TEST_P(ReversibleSettings, SameBitsHoweverItRunsAndNoStash) {
  std::optional<Ran> first;
  for (const char* const execution : {"relay", "resident"}) {
    for (const std::int64_t threads : {1, 3}) {
      Options options = this->options();
      options.device.execution = execution;
      options.device.threads = options.eps.threads = threads;
      options.transfer.prefetch = threads;
      const Ran now = ran(options);
      if (!first) first = now;
      EXPECT_EQ(now.outcome, first->outcome) << execution << ", threads " << threads;
      EXPECT_EQ(now.counters.stash_h2d + now.counters.stash_d2h, 0u);
      // All other traffic equals that of the model that is not reversible.
      options.model.reversible = "none";
      const Ran plain = ran(options);
      EXPECT_EQ(now.counters.weights_h2d, plain.counters.weights_h2d);
      EXPECT_EQ(now.counters.gradients_d2h, plain.counters.gradients_d2h);
      EXPECT_EQ(now.counters.batch_h2d, plain.counters.batch_h2d);
      const bool drifts = std::string(GetParam().reversible) == "float";
      EXPECT_EQ(now.counters.results_d2h - plain.counters.results_d2h, drifts ? 5u * 3 * 16 : 0u);
      EXPECT_NE(now.outcome.losses, plain.outcome.losses);
    }
  }
  EXPECT_LT(first->outcome.losses.back(), first->outcome.losses.front());
}

TEST_P(ReversibleSettings, StoredInputsAreTheSameModel) {
  const Ran rebuilt = ran(options()), host = ran(with_stash(options(), "host")),
            device = ran(with_stash(options(), "device"));
  EXPECT_EQ(host.outcome, device.outcome);
  EXPECT_GT(host.counters.stash_d2h, 0u);
  if (std::string(GetParam().reversible) == "fixed") {
    EXPECT_EQ(rebuilt.outcome, device.outcome);
  } else {
    EXPECT_EQ(rebuilt.outcome.losses[0], device.outcome.losses[0]);
    EXPECT_LE(difference(rebuilt.outcome, device.outcome), 1e-3);
  }
}

TEST_P(ReversibleSettings, AResumedRunEqualsTheUninterruptedOne) {
  const Record whole = train(options(), 8);
  Trainer first(options());
  for (int step = 0; step < 3; ++step) first.step();
  first.save();
  Options other = options();
  other.device.execution = "resident";
  Trainer second(other);
  second.resume(run_.folder() / "checkpoints");
  const Record rest = testing::record_of(second, 5);
  EXPECT_EQ(rest.hash, whole.hash);
  EXPECT_TRUE(std::equal(rest.losses.begin(), rest.losses.end(), whole.losses.begin() + 3));
}

TEST_P(ReversibleSettings, DevicesTrainLikeOne) {
  Options one = options(), three = options();
  one.precision.gradients = three.precision.gradients = "fp32";
  three.device.count = 3;
  const Record alone = train(one, 5), shared = train(three, 5);
  EXPECT_EQ(alone.losses[0], shared.losses[0]);
  // Another order of sums may round differently to the grid or to 16 bits.
  for (std::size_t i = 0; i < alone.losses.size(); ++i) EXPECT_NEAR(shared.losses[i] / alone.losses[i], 1, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ReversibleSettings,
                         ::testing::Values(Setting{"fixed", "fp32", "gpt2", 0, "eager"},
                                           Setting{"fixed", "bf16", "gpt2", kChunkRows, "after_backward"},
                                           Setting{"fixed", "fp16", "llama", 0, "eager"},
                                           Setting{"fixed", "bf16", "llama_tied", kChunkRows, "eager"},
                                           Setting{"float", "fp32", "gpt2", 0, "after_backward"},
                                           Setting{"float", "bf16", "gpt2", kChunkRows, "eager"},
                                           Setting{"float", "fp32", "llama", 0, "eager"}),
                         [](const auto& info) {
                           const Setting& s = info.param;
                           return std::string(s.reversible) + "_" + s.compute + "_" + s.family +
                                  (s.chunk > 0 ? "_chunks" : "");
                         });

TEST(Reversible, ATableInChunksIsTheSameModel) {
  const SmallRun run;
  for (const char* const family : {"gpt2", "llama", "llama_tied"}) {
    Options options = options_of(run, "float", "fp32", family);
    const Ran whole = ran(options);
    options.transfer.vocabulary_chunk = kChunkRows;
    const Ran chunks = ran(options);
    EXPECT_LE(difference(chunks.outcome, whole.outcome), 2e-6) << family;
    EXPECT_EQ(chunks.outcome.tokens, whole.outcome.tokens) << family;
  }
}

TEST_P(ReversibleSettings, DeviceAndPinnedBytesAreExact) {
  for (const char* const execution : {"relay", "resident"}) {
    Options options = this->options();
    options.device.execution = execution;
    options.device.threads = 2;
    const auto [devices, pinned] = testing::measured_memory(options, 2);
    const Trainer trainer(options);
    EXPECT_EQ(pinned, trainer.contract().pinned_bytes) << execution;
    EXPECT_EQ(devices.at(0), trainer.contract().device_bytes) << execution;
  }
}

// Nothing is read before it is written, however copies and launches are delayed.
TEST(Reversible, PoisonedMemoryAndDelaysChangeNothing) {
  const SmallRun run;
  testing::FaultPlan faults;
  faults.poison = true;
  faults.copy_h2d_delay = faults.copy_d2h_delay = faults.launch_delay = std::chrono::microseconds(300);
  for (const char* const reversible : {"fixed", "float"}) {
    for (const std::int64_t chunk : {std::int64_t{0}, kChunkRows}) {
      Options options = options_of(run, reversible, "bf16");
      options.transfer.vocabulary_chunk = chunk;
      const Record honest = testing::record_on(options, 4, testing::honest);
      EXPECT_EQ(testing::record_on(options, 4, testing::faulty(faults)), honest) << reversible << ", " << chunk;
    }
  }
}

// Law 1 without a stash: neither device nor staging grows with depth.
TEST(Reversible, DeviceMemoryIsTheSameAtAnyDepth) {
  const SmallRun run;
  for (const char* const reversible : {"fixed", "float"}) {
    std::map<std::int64_t, std::uint64_t> planned, measured, stash;
    for (const std::int64_t layers : {2, 48, 200}) {
      Options options = options_of(run, reversible);
      options.model.layers = layers;
      Trainer trainer(options);
      trainer.step();
      planned[layers] = trainer.contract().device_bytes;
      measured[layers] = trainer.device_peak_bytes();
      EXPECT_EQ(trainer.contract().stash, "none");
      for (const ContractLine& line : trainer.contract().host) {
        if (line.what.find("stash") != std::string::npos) stash[layers] += line.bytes;
      }
    }
    EXPECT_EQ(planned, measured);
    EXPECT_EQ(measured[2], measured[48]);
    EXPECT_EQ(measured[2], measured[200]);
    EXPECT_TRUE(stash.empty());
  }
}

// Losses agree within a thousandth over steps in which the loss falls: fixed and floating point are the same model up
// to rounding.
// What is rebuilt for the lowest block that is trained is read by nothing below it.
TEST(Reversible, BlocksBelowMayBeFrozen) {
  const SmallRun run;
  for (const std::vector<std::string>& train : {std::vector<std::string>{"h.2.*"}, {"h.1.*", "ln_f*"}, {"ln_f*"}}) {
    Options options = options_of(run, "fixed");
    options.optimizer.train = train;
    std::optional<Record> expected;
    for (const char* const stash : {"device", "auto"}) {
      for (const char* const execution : {"relay", "resident"}) {
        options.transfer.stash = stash;
        options.device.execution = execution;
        Trainer trainer(options);
        const Record found = testing::record_of(trainer, 3);
        if (!expected) expected = found;
        EXPECT_EQ(found, *expected) << train[0] << ", " << stash << ", " << execution;
      }
    }
  }
}

TEST(Reversible, FixedAndFloatingPointLearnAlike) {
  const SmallRun run;
  const Record fixed = train(options_of(run, "fixed"), 20), floating = train(options_of(run, "float"), 20);
  EXPECT_LT(fixed.losses.back(), 0.9 * fixed.losses.front());
  for (std::size_t i = 0; i < fixed.losses.size(); ++i) EXPECT_NEAR(fixed.losses[i] / floating.losses[i], 1, 1e-3) << i;
}

// Values outside the range of fixed point stop the run with a message that says so; in floating point it goes on.
TEST(Reversible, AStreamThatLeavesItsRangeStopsTheRun) {
  const SmallRun run;
  const auto train_wildly = [&](const std::string& reversible) {
    Options options = options_of(run, reversible);
    options.optimizer.name = "sgd";
    options.optimizer.learning_rate = 1e4;
    options.optimizer.weight_decay = 0;
    options.schedule = {};
    Trainer trainer(options);
    std::string said;
    try {
      for (int step = 0; step < 3; ++step) trainer.step();
    } catch (const NumericError& error) {
      said = error.what();
    }
    return said;
  };
  const std::string said = train_wildly("fixed");
  EXPECT_NE(said.find("32768"), std::string::npos) << said;
  EXPECT_NE(said.find("model.reversible = \"float\""), std::string::npos) << said;
  EXPECT_EQ(train_wildly("float"), "");
}

}  // namespace
}  // namespace l2l::reversible_law

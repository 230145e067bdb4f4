// Law 2: losses, gradients and weights do not depend, to the bit, on how a run is executed. On the way, the bytes that
// crossed the link equal the formulas of docs/transfer.md for every combination.
#include <gtest/gtest.h>

#include <thread>

#include "core/fault_point.h"
#include "tests/laws/small_run.h"
#include "tests/support/fault_device.h"
#include "tests/support/instrumented.h"

namespace l2l {
namespace {

using testing::Record;
using testing::SmallRun;

constexpr int kSteps = 20;

// A table of 256 x 24 in four chunks, the last of which is smaller.
constexpr std::int64_t kChunkRows = 72, kChunkCount = 4;

struct Combination {
  std::string execution, update, stash;
  std::int64_t threads, prefetch;
  std::int64_t resident_layers = 0;  // of the relay
};

std::string describe(const Combination& c) {
  return c.execution + ", " + c.update + ", stash " + c.stash + ", threads " + std::to_string(c.threads) +
         ", prefetch " + std::to_string(c.prefetch) + ", resident layers " + std::to_string(c.resident_layers);
}

// All of them, or every fifth; instrumented builds, which are ten times slower, take every seventh of all.
std::vector<Combination> combinations(bool every) {
  std::vector<Combination> all;
  for (const char* execution : {"relay", "resident"}) {
    for (const char* update : {"eager", "after_backward"}) {
      for (const char* stash : {"host", "device"}) {
        for (std::int64_t threads : {1, 2, 4}) {
          for (std::int64_t prefetch : {1, 2, 3}) {
            const std::int64_t staying = execution == std::string("relay") ? (threads + prefetch) % 3 : 0;
            all.push_back({execution, update, stash, threads, prefetch, staying});
          }
        }
      }
    }
  }
  const std::size_t stride = (every ? 1 : 5) * (testing::kInstrumented ? 7 : 1);
  std::vector<Combination> some;
  for (std::size_t i = 0; i < all.size(); i += stride) some.push_back(all[i]);
  return some;
}

Options with(Options options, const Combination& c) {
  options.device.execution = c.execution;
  options.optimizer.update = c.update;
  options.transfer.stash = c.stash;
  options.device.threads = options.eps.threads = c.threads;
  options.transfer.prefetch = c.prefetch;
  options.transfer.resident_layers = c.resident_layers;
  return options;
}

// Written out from the models' descriptions, not from the code: parameters per layer of a model whose sizes are all
// multiples of 8.
struct Expected {
  std::uint64_t embedding, block, head;
  std::uint64_t norm = 0;  // a block of its own type below the others
  std::uint64_t token;     // parameters of the head per token of the vocabulary

  explicit Expected(const ModelOptions& m) {
    const auto h = static_cast<std::uint64_t>(m.hidden), v = static_cast<std::uint64_t>(m.vocabulary);
    const auto positions = static_cast<std::uint64_t>(m.sequence) * h;
    token = h;
    if (m.architecture == "llama") {
      const auto shared = h / static_cast<std::uint64_t>(m.heads) * static_cast<std::uint64_t>(m.kv_heads);
      embedding = v * h;
      block = h + (h + 2 * shared) * h + h * h + h + 3 * static_cast<std::uint64_t>(m.intermediate) * h;
      head = h + v * h;
      return;
    }
    embedding = v * h + positions;
    block = 2 * h + 3 * h * h + 3 * h + h * h + h + 2 * h + 4 * h * h + 4 * h + 4 * h * h + h;
    head = 2 * h + v * h;
    if (m.architecture == "gpt2") return;
    embedding += 2 * h;
    norm = 2 * h;
    token = h + 1;
    head = h * h + h + 2 * h + v * token;
  }
};

// Parameters that cross the link once instead of twice: `resident_layers` blocks, spread over all but the last one, or
// over all where the head is in chunks. Bert's first block is the norm of its embedding.
std::uint64_t staying(const Options& options, const Expected& model) {
  const bool chunks = options.transfer.vocabulary_chunk > 0;
  std::int64_t blocks = options.model.layers + (model.norm > 0 ? 1 : 0) - (chunks ? 0 : 1);
  const std::int64_t stay = std::min(blocks, options.transfer.resident_layers);
  std::uint64_t parameters = 0;
  for (std::int64_t block = 1, placed = 0; block <= blocks; ++block) {
    // In the middle of its share, as a line is drawn on a grid.
    if (2 * stay * block - 2 * placed * blocks <= blocks) continue;
    ++placed;
    parameters += block == 1 && model.norm > 0 ? model.norm : model.block;
  }
  return parameters;
}

LinkCounters expected_counters(const Options& options, int steps) {
  const Expected model(options.model);
  const auto size_in = [](const std::string& type) -> std::uint64_t { return type == "fp32" ? 4 : 2; };
  const std::uint64_t size = size_in(options.precision.compute);
  const std::uint64_t gradient = options.precision.gradients == "auto" ? size : size_in(options.precision.gradients);
  const auto n = static_cast<std::uint64_t>(options.model.layers);
  const auto u = static_cast<std::uint64_t>(options.batch.micro_batches);
  const auto rows = static_cast<std::uint64_t>(options.batch.micro_batch * options.model.sequence);
  const bool relay = options.device.execution == "relay";
  LinkCounters c;
  const std::uint64_t blocks = model.norm + n * model.block;
  c.weights_h2d = ((relay ? 2 : 1) * blocks - (relay ? model.block : 0) + model.embedding + model.head) * size;
  // The head crosses twice, except for its last chunk; the last block crosses twice, too.
  if (relay && options.transfer.vocabulary_chunk > 0) {
    const auto rows = static_cast<std::uint64_t>(options.model.vocabulary - kChunkRows * (kChunkCount - 1));
    c.weights_h2d += (model.block + model.head - rows * model.token) * size;
  }
  // A block below the others may be the one that stays: of the same bytes, or a norm.
  c.weights_h2d -= staying(options, model) * size;
  c.gradients_d2h = (blocks + model.embedding + model.head) * gradient;
  const std::uint64_t stashed = (n + (model.norm > 0 ? 1 : 0)) * u * rows;
  c.stash_d2h = c.stash_h2d =
      options.transfer.stash == "host" ? stashed * static_cast<std::uint64_t>(options.model.hidden) * size : 0;
  c.batch_h2d = 2 * u * rows * 4;
  // Chunks of the table are layers; the head's norm is one beside them, and so are the positions (llama has none).
  const bool chunks = options.transfer.vocabulary_chunk > 0;
  const std::uint64_t layers = n + (model.norm > 0 ? 1 : 0) + (chunks ? 2 * kChunkCount + 1 : 2) +
                               (chunks && options.model.architecture != "llama" ? 1 : 0);
  c.results_d2h = (u + layers) * 8;  // losses, and each layer's sum of squares
  for (std::uint64_t* counter :
       {&c.weights_h2d, &c.gradients_d2h, &c.stash_h2d, &c.stash_d2h, &c.batch_h2d, &c.results_d2h}) {
    *counter *= static_cast<std::uint64_t>(steps);
  }
  return c;
}

void expect_counters(const LinkCounters& counters, const LinkCounters& expected, const std::string& what) {
  EXPECT_EQ(counters.weights_h2d, expected.weights_h2d) << what;
  EXPECT_EQ(counters.gradients_d2h, expected.gradients_d2h) << what;
  EXPECT_EQ(counters.stash_h2d, expected.stash_h2d) << what;
  EXPECT_EQ(counters.stash_d2h, expected.stash_d2h) << what;
  EXPECT_EQ(counters.batch_h2d, expected.batch_h2d) << what;
  EXPECT_EQ(counters.results_d2h, expected.results_d2h) << what;
}

// What the bits of a run do depend on.
struct Recipe {
  std::string compute, clip, optimizer = "adamw", gradients = "auto";
  bool every = false;      // combination
  std::int64_t chunk = 0;  // rows of the table; 0: all
  std::string family = "gpt2", attention = "fused";
};

class Equivalence : public ::testing::TestWithParam<Recipe> {
 protected:
  Options options() const {
    Options options = run_.options(GetParam().family);
    options.precision.compute = GetParam().compute;
    options.precision.gradients = GetParam().gradients;
    options.precision.loss_scale_growth = 5;  // fp16: the scale moves, and some steps are skipped
    options.optimizer.name = GetParam().optimizer;
    options.optimizer.clip = GetParam().clip;
    options.transfer.vocabulary_chunk = GetParam().chunk;
    options.model.attention = GetParam().attention;
    return options;
  }
  SmallRun run_;
};

TEST_P(Equivalence, SameBitsAndCountedBytesInEveryCombination) {
  std::optional<Record> first;
  bool own_threads = false;  // every second time, streams of the host device copy on their own threads alone
  for (const Combination& combination : combinations(GetParam().every)) {
    const Options options = with(this->options(), combination);
    arm_fault_point(own_threads ? "stream.none_inline" : "");
    own_threads = !own_threads;
    Trainer trainer(options);
    const Record record = testing::record_of(trainer, kSteps);
    if (!first) first = record;
    EXPECT_EQ(record, *first) << describe(combination);
    expect_counters(trainer.link_counters(), expected_counters(options, kSteps), describe(combination));
  }
  arm_fault_point("");
  EXPECT_LT(first->losses.back(), first->losses.front());
}

INSTANTIATE_TEST_SUITE_P(
    PrecisionOptimizerAndClipping, Equivalence,
    ::testing::Values(Recipe{"fp32", "none", "adamw", "auto", true}, Recipe{"fp32", "global", "adamw", "auto", true},
                      Recipe{"bf16", "none", "adamw", "auto", true}, Recipe{"bf16", "global", "adamw", "auto", true},
                      Recipe{"fp32", "none", "adamw", "auto", true, kChunkRows},
                      Recipe{"bf16", "global", "adamw", "auto", false, kChunkRows},
                      Recipe{"fp16", "none", "lamb", "auto", false, kChunkRows},
                      Recipe{"fp16", "none", "adamw", "auto", true}, Recipe{"fp16", "global", "adamw", "auto", true},
                      Recipe{"fp16", "per_layer", "lamb", "bf16"}, Recipe{"fp32", "none", "lamb"},
                      Recipe{"bf16", "global", "lamb", "fp32"}, Recipe{"fp32", "per_layer", "sgd", "bf16"},
                      Recipe{"bf16", "per_layer"}, Recipe{"fp32", "none", "adamw", "auto", false, 0, "bert"},
                      Recipe{"bf16", "global", "lamb", "auto", false, kChunkRows, "bert"},
                      Recipe{"bf16", "none", "adamw", "fp32", false, 0, "llama"},
                      Recipe{"fp32", "global", "adamw", "auto", false, kChunkRows, "llama"},
                      Recipe{"fp16", "none", "adamw", "auto", false, kChunkRows, "llama_tied"},
                      Recipe{"fp32", "none", "adamw", "auto", true, 0, "gpt2", "core"},
                      Recipe{"bf16", "none", "adamw", "auto", false, 0, "bert", "core"},
                      Recipe{"fp16", "none", "adamw", "auto", false, 0, "llama", "core"}),
    [](const auto& info) {
      const Recipe& r = info.param;
      return r.compute + "_clip_" + r.clip + "_" + r.optimizer + "_gradients_" + r.gradients +
             (r.chunk > 0 ? "_chunks" : "") + (r.family == "gpt2" ? "" : "_" + r.family) +
             (r.attention == "fused" ? "" : "_" + r.attention);
    });

// Negative controls: each breaks the relay in one way, and the comparison above must notice.

using testing::FaultPlan;
using namespace std::chrono_literals;

Options control_options(const SmallRun& run) { return with(run.options(), {"relay", "after_backward", "host", 2, 2}); }

Record honest_record(const SmallRun& run) { return testing::record_on(control_options(run), kSteps, testing::honest); }

Record record_with(const SmallRun& run, const FaultPlan& faults) {
  return testing::record_on(control_options(run), kSteps, testing::faulty(faults));
}

TEST(EquivalenceNegativeControl, HonestRunsAgree) {
  const SmallRun run;
  FaultPlan delays;
  delays.copy_h2d_delay = delays.copy_d2h_delay = delays.launch_delay = 300us;
  delays.poison = true;
  EXPECT_EQ(honest_record(run), honest_record(run));
  EXPECT_EQ(record_with(run, delays), honest_record(run));
}

TEST(EquivalenceNegativeControl, SkippedWaitIsCaught) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a data race on purpose";
#endif
  const SmallRun run;
  FaultPlan faults;
  faults.copy_h2d_delay = 2000us;
  faults.skipped_reason = device::WaitReason::weights;
  faults.skip_wait = FaultPlan::kEvery;
  EXPECT_NE(record_with(run, faults), honest_record(run));
}

TEST(EquivalenceNegativeControl, DroppedMicrobatchIsCaught) {
  const SmallRun run;
  FaultPlan faults;
  faults.drop_program = "block backward";
  faults.drop_microbatch = 1;
  EXPECT_NE(record_with(run, faults), honest_record(run));
}

#ifdef L2L_FAULT_POINTS
class Armed {
 public:
  explicit Armed(const char* name) { arm_fault_point(name); }
  ~Armed() { arm_fault_point(""); }
};

TEST(EquivalenceNegativeControl, ReusedStashSlotIsCaught) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a data race on purpose";
#endif
  const SmallRun run;
  const Record honest = honest_record(run);
  const Armed armed("stash.reuse_slot");
  EXPECT_NE(honest_record(run), honest);
}

TEST(EquivalenceNegativeControl, StaleVersionIsCaught) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a data race on purpose";
#endif
  const SmallRun run;
  const Options options = control_options(run);
  // A lease that outlives its step holds the update of block 2 back, so that the next step must wait for it.
  std::thread reader;
  const auto linger = [&](runtime::Engine& engine, int step) {
    if (step != 3) return;
    reader = std::thread([lease = engine.store().pull(2, 3)]() mutable {
      std::this_thread::sleep_for(100ms);
      lease.release();
    });
  };
  const auto record = [&] {
    return testing::record_on(
        options, 6, testing::honest, [&] { reader.join(); }, linger);
  };
  const Record honest = record();
  EXPECT_EQ(record(), honest);
  const Armed armed("eps.stale_version");
  EXPECT_NE(record(), honest);
}
#endif

}  // namespace
}  // namespace l2l

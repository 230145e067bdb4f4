#include "runtime/options/batch_shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "runtime/plan_run.h"
#include "runtime/tuning/shallow_run.h"
#include "tests/runtime/test_data.h"

namespace l2l::runtime {
namespace {

using test::bad_input;

std::string text_of(const BatchOptions& batch, std::int64_t devices) {
  return std::to_string(batch.minibatch) + " = " + std::to_string(batch.micro_batch) + " x " +
         std::to_string(batch.micro_batches) + " on " + std::to_string(devices);
}

std::string outcome(const BatchOptions& batch, std::int64_t devices) {
  try {
    return text_of(resolved(batch, devices), devices);
  } catch (const BadInput&) {
    return "refused";
  }
}

// By trying every shape: of those that agree with what is given, the one that the rules name.
std::string outcome_by_trying(const BatchOptions& given, std::int64_t devices) {
  std::optional<BatchOptions> found;
  for (std::int64_t b = 1; b <= 48; ++b) {
    for (std::int64_t u = devices; u <= 48; u += devices) {
      const bool minibatch_alone = given.minibatch > 0 && given.micro_batch == 0 && given.micro_batches == 0;
      if (given.minibatch > 0 && b * u != given.minibatch) continue;
      if (given.micro_batch > 0 && b != given.micro_batch) continue;
      if (given.micro_batches > 0 && u != given.micro_batches) continue;
      if (given.minibatch == 0 && given.micro_batch == 0 && b != 8) continue;
      if (given.minibatch == 0 && given.micro_batches == 0 && u != 1) continue;
      if (minibatch_alone && b > 8) continue;
      EXPECT_TRUE(!found || minibatch_alone) << "one shape at most agrees";
      found = BatchOptions{b * u, b, u};  // the last one has the largest microbatch
    }
  }
  return found ? text_of(*found, devices) : "refused";
}

TEST(BatchShape, IsWhatTryingEveryShapeFinds) {
  int refused = 0, accepted = 0;
  for (std::int64_t devices = 1; devices <= 4; ++devices) {
    for (std::int64_t minibatch = 0; minibatch <= 48; ++minibatch) {
      for (std::int64_t b = 0; b <= 12; ++b) {
        for (std::int64_t u = 0; u <= 12; ++u) {
          const BatchOptions given{minibatch, b, u};
          const std::string expected = outcome_by_trying(given, devices);
          ASSERT_EQ(outcome(given, devices), expected) << text_of(given, devices);
          ++(expected == "refused" ? refused : accepted);
        }
      }
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(accepted, 1000);
}

TEST(BatchShape, AResolvedOneStaysAsItIs) {
  for (std::int64_t devices = 1; devices <= 4; ++devices) {
    for (std::int64_t minibatch = devices; minibatch <= 200; minibatch += devices) {
      const BatchOptions batch = resolved({.minibatch = minibatch}, devices);
      EXPECT_EQ(outcome(batch, devices), text_of(batch, devices));
    }
  }
}

// The same shape on any number of devices that divides the parts.
TEST(BatchShape, PartsTakeThePlaceOfDevices) {
  for (const std::int64_t devices : {1, 2, 4}) {
    EXPECT_EQ(outcome({.minibatch = 48, .parts = 4}, devices), "48 = 6 x 8 on " + std::to_string(devices));
    EXPECT_EQ(outcome({.minibatch = 48, .micro_batches = 6, .parts = 4}, devices), "refused");
    EXPECT_EQ(outcome({.minibatch = 48, .micro_batches = 6}, devices) == "refused", devices == 4);
  }
  EXPECT_EQ(outcome({.minibatch = 48, .parts = 4}, 3), "refused");
  EXPECT_EQ(outcome({.minibatch = 48, .parts = 4}, 8), "refused");
  EXPECT_EQ(
      bad_input([] { resolved({.minibatch = 48, .parts = 3}, 1); }),
      "batch.parts = 3 is no power of two, so that its parts make no whole binary tree; set batch.parts = 2 or 4");
  EXPECT_EQ(
      bad_input([] { resolved({.minibatch = 46, .parts = 4}, 2); }),
      "batch.minibatch = 46 is not divisible by batch.parts = 4: each part takes an equal share of its sequences; "
      "set batch.minibatch = 44 or 48");
}

// The numbers that a message names after "; set KEY = ".
std::set<std::int64_t> named(const std::string& message, const std::string& key) {
  const std::string before = "; set " + key + " = ";
  const std::size_t at = message.find(before);
  std::set<std::int64_t> numbers;
  if (at == std::string::npos) return numbers;
  std::size_t length = 0;
  const std::string rest = message.substr(at + before.size());
  numbers.insert(std::stoll(rest, &length));
  if (rest.substr(length, 4) == " or ") numbers.insert(std::stoll(rest.substr(length + 4)));
  return numbers;
}

// Whatever is refused with one number wrong: the numbers named instead do, and none does that is nearer.
template <typename With>
void check_way_out(const std::string& key, std::int64_t wrong, std::int64_t devices, With with) {
  const std::string message = bad_input([&] { resolved(with(wrong), devices); });
  if (message == "(no BadInput)") return;
  std::set<std::int64_t> nearest;
  for (std::int64_t below = wrong - 1; below >= 1; --below) {
    if (outcome(with(below), devices) == "refused") continue;
    nearest.insert(below);
    break;
  }
  for (std::int64_t above = wrong + 1; above <= 80; ++above) {
    if (outcome(with(above), devices) == "refused") continue;
    nearest.insert(above);
    break;
  }
  EXPECT_EQ(named(message, key), nearest) << message;
}

TEST(BatchShape, ARefusalNamesTheNearestThatWouldDo) {
  for (std::int64_t devices = 1; devices <= 3; ++devices) {
    for (std::int64_t wrong = 1; wrong <= 40; ++wrong) {
      check_way_out("batch.minibatch", wrong, devices, [](std::int64_t n) { return BatchOptions{.minibatch = n}; });
      check_way_out("batch.micro_batches", wrong, devices,
                    [](std::int64_t n) { return BatchOptions{.micro_batches = n}; });
      for (std::int64_t minibatch = devices; minibatch <= 36; minibatch += devices) {
        check_way_out("batch.micro_batch", wrong, devices,
                      [&](std::int64_t n) { return BatchOptions{.minibatch = minibatch, .micro_batch = n}; });
        check_way_out("batch.micro_batches", wrong, devices,
                      [&](std::int64_t n) { return BatchOptions{.minibatch = minibatch, .micro_batches = n}; });
      }
    }
  }
}

TEST(BatchShape, ARefusalNamesKeysAndValues) {
  const auto refusal = [](const BatchOptions& batch, std::int64_t devices) {
    return bad_input([&] { resolved(batch, devices); });
  };
  EXPECT_EQ(refusal({.minibatch = 30, .micro_batch = 4}, 1),
            "batch.minibatch = 30 is not divisible by batch.micro_batch = 4; set batch.micro_batch = 3 or 5");
  EXPECT_EQ(refusal({.minibatch = 60, .micro_batch = 4}, 2),
            "batch.minibatch = 60 over device.count = 2 is 30 sequences each, which is not divisible by "
            "batch.micro_batch = 4; set batch.micro_batch = 3 or 5");
  EXPECT_EQ(refusal({.minibatch = 60, .micro_batches = 8}, 2),
            "batch.minibatch = 60 cannot be cut into batch.micro_batches = 8 of one size, as many on each of "
            "device.count = 2; set batch.micro_batches = 6 or 10");
  EXPECT_EQ(refusal({.minibatch = 30, .micro_batch = 4, .micro_batches = 4}, 1),
            "batch.minibatch = 30, but batch.micro_batch = 4 x batch.micro_batches = 4 are 16 sequences; leave one of "
            "the three out, or set it to 0");
  EXPECT_EQ(refusal({.minibatch = 30}, 4),
            "batch.minibatch = 30 is not divisible by device.count = 4: each device takes an equal share of its "
            "sequences; set batch.minibatch = 28 or 32");
  EXPECT_EQ(bad_input([] { resolved({.minibatch = 30}, 4, 2); }),
            "batch.minibatch = 30 is not divisible by the 4 devices of 2 processes: each device takes an equal share "
            "of its sequences; set batch.minibatch = 28 or 32");
}

TEST(BatchShape, QuotientsStayWithinTheirRanges) {
  const std::int64_t large = std::int64_t{2} * kMostMicroBatches;
  EXPECT_EQ(resolved({.minibatch = large, .micro_batch = 2}, 1).micro_batches, kMostMicroBatches);
  EXPECT_SAYS(bad_input([&] { resolved({.minibatch = large, .micro_batch = 1}, 1); }), "at most 16777215 are possible");
  EXPECT_EQ(resolved({.minibatch = kMostMicroBatch, .micro_batches = 1}, 1).micro_batch, kMostMicroBatch);
  EXPECT_SAYS(bad_input([] { resolved({.minibatch = 2 * kMostMicroBatch, .micro_batches = 1}, 1); }),
              "at most 1048576 are possible");
  constexpr std::int64_t kPrime = 16777259;
  EXPECT_SAYS(bad_input([] { resolved({.minibatch = kPrime}, 1); }), "in microbatches of 1");
}

TEST(LeavesMicroBatch, WhereItIsToBeChosenWithRecomputation) {
  Options options;
  options.data.train = {"text"};
  options.batch = {.minibatch = 8};
  EXPECT_FALSE(leaves_micro_batch(options)) << "by default bits do not depend on the machine";
  options.batch.micro_batch = BatchOptions::kChosen;
  EXPECT_TRUE(leaves_micro_batch(options));
  EXPECT_NO_THROW(validate_options(options));
  EXPECT_EQ(outcome(options.batch, 1), "8 = 8 x 1 on 1") << "without times";
  EXPECT_EQ(parse_options(to_toml(options), "saved").batch.micro_batch, BatchOptions::kChosen);

  const auto refusal = [&](const auto& change) {
    Options wrong = options;
    change(wrong);
    return bad_input([&] { validate_options(wrong); });
  };
  const std::string chosen_together = "the two are chosen together";
  EXPECT_SAYS(refusal([](Options& o) { o.recompute.policy = "full"; }), chosen_together);
  EXPECT_SAYS(refusal([](Options& o) { o.recompute.budget = 1 << 20; }), chosen_together);
  EXPECT_SAYS(refusal([](Options& o) { o.model.reversible = "float"; }), chosen_together);
  EXPECT_SAYS(refusal([](Options& o) { o.batch.minibatch = 0; }), "batch.minibatch is cut: set that");
  EXPECT_SAYS(refusal([](Options& o) { o.batch.micro_batches = 2; }), "leave batch.micro_batches out");
}

int octave_of(std::int64_t number) {
  int octave = 0;
  while (number >>= 1) ++octave;
  return octave;
}

// Every rule of the contract, of each share to 4096.
void check_candidates(std::int64_t share, std::int64_t devices) {
  const std::vector<std::int64_t> candidates = micro_batch_candidates(share * devices, devices);
  SCOPED_TRACE(text_of({share * devices, 0, 0}, devices));
  std::vector<int> octaves;  // that hold a divisor, ascending
  for (std::int64_t d = 1; d <= share; ++d) {
    if (share % d == 0 && (octaves.empty() || octaves.back() != octave_of(d))) octaves.push_back(octave_of(d));
  }
  ASSERT_EQ(candidates.size(), std::min<std::size_t>(octaves.size(), 6));
  EXPECT_EQ(candidates.front(), 1);
  EXPECT_EQ(candidates.back(), share);
  std::size_t before = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::int64_t candidate = candidates[i];
    ASSERT_EQ(share % candidate, 0) << candidate;
    for (std::int64_t less = std::int64_t{1} << octave_of(candidate); less < candidate; ++less) {
      ASSERT_NE(share % less, 0) << candidate << " is not the least of its octave";
    }
    const auto at = std::find(octaves.begin(), octaves.end(), octave_of(candidate)) - octaves.begin();
    const auto place = static_cast<std::size_t>(at);
    if (i > 0) {  // ascending, and no gap more than one place wider than another
      ASSERT_GE(place - before, std::max<std::size_t>(1, (octaves.size() - 1) / 5));
      ASSERT_LE(place - before, std::max<std::size_t>(1, (octaves.size() + 3) / 5));
    }
    before = place;
    const BatchOptions batch = resolved({.minibatch = share * devices, .micro_batch = candidate}, devices);
    ASSERT_EQ(batch.micro_batches % devices, 0);
  }
}

TEST(MicroBatchCandidates, KeepTheirRulesForEveryShare) {
  for (std::int64_t devices = 1; devices <= 3; ++devices) {
    for (std::int64_t share = 1; share <= 4096; ++share) {
      check_candidates(share, devices);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(MicroBatchCandidates, Examples) {
  using Numbers = std::vector<std::int64_t>;
  EXPECT_EQ(micro_batch_candidates(1, 1), Numbers{1});
  EXPECT_EQ(micro_batch_candidates(24, 1), (Numbers{1, 2, 4, 8, 24}));
  EXPECT_EQ(micro_batch_candidates(24, 2), (Numbers{1, 2, 4, 12}));
  EXPECT_EQ(micro_batch_candidates(31, 1), (Numbers{1, 31}));
  EXPECT_EQ(micro_batch_candidates(1024, 1), (Numbers{1, 4, 16, 64, 256, 1024}));
}

TEST(MicroBatchCandidates, OfALargeMinibatchArePossibleAndSoon) {
  EXPECT_EQ(micro_batch_candidates(std::int64_t{2} * 16777213, 1), std::vector<std::int64_t>{2}) << "twice a prime";
  for (const std::int64_t minibatch : {kMostMicroBatch * kMostMicroBatches, std::int64_t{8} * kMostMicroBatches}) {
    const std::vector<std::int64_t> candidates = micro_batch_candidates(minibatch, 1);
    EXPECT_FALSE(candidates.empty());
    for (const std::int64_t candidate : candidates) {
      EXPECT_EQ(outcome({.minibatch = minibatch, .micro_batch = candidate}, 1),
                text_of({minibatch, candidate, minibatch / candidate}, 1));
    }
  }
}

Options small_options() {
  Options options;
  options.model = {.layers = 4, .hidden = 16, .heads = 2, .sequence = 8};
  options.device.kind = "host";
  options.device.threads = 1;
  options.recompute.policy = "full";
  return options;
}

TEST(BatchShape, APlanHasNumbers) {
  Options options = small_options();
  EXPECT_EQ(text_of(plan_run(options).options.batch, 1), "8 = 8 x 1 on 1");
  options.batch = {.minibatch = 12};
  const RunPlan plan = plan_run(options);
  EXPECT_EQ(text_of(plan.options.batch, 1), "12 = 6 x 2 on 1");
  EXPECT_EQ(plan.execution.microbatches, 2);
  EXPECT_EQ(plan.model.rows, 6 * 8);
  EXPECT_EQ(to_toml(plan_run(parse_options(to_toml(plan.options), "saved")).options), to_toml(plan.options));
}

TEST(BatchShape, FewerMicrobatchesOfAShallowerModelAreASmallerMinibatch) {
  Options options = small_options();
  options.batch = {.minibatch = 12, .micro_batch = 2};
  const RunPlan plan = plan_run(options);
  Options fewer = shallower(plan);
  fewer.batch.micro_batches = 3;
  EXPECT_EQ(text_of(plan_run(fewer).options.batch, 1), "6 = 2 x 3 on 1");
}

}  // namespace
}  // namespace l2l::runtime

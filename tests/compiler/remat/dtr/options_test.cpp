// Options: what happens to unreferenced storages, and the search's shortcuts.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "compiler/remat/dtr/simulate.h"
#include "l2l/errors.h"
#include "tests/compiler/remat/dtr/chain.h"
#include "tests/compiler/remat/dtr/recorder.h"

namespace l2l::compiler::remat::dtr {
namespace {

using Events = std::vector<std::string>;

struct Driven {
  explicit Driven(const Options& options) : core(options, recorder) { recorder.watch(core); }
  // A tensor of `bytes` from `args`.
  Index make(std::vector<Index> args, Bytes bytes) {
    EXPECT_TRUE(core.run({1, std::move(args), {{bytes, kNone}}}));
    return static_cast<Index>(core.graph().tensors().size() - 1);
  }

  Recorder recorder;
  Rematerializer core;
};

Options with(Unreferenced unreferenced, Bytes budget = 0, Score heuristic = Score::lru) {
  Options options;
  options.unreferenced = unreferenced;
  options.budget = budget;
  options.heuristic = heuristic;
  return options;
}

TEST(Unreferenced, IsKeptUntilItsTurn) {
  Driven run(with(Unreferenced::keep, 10));
  const Index a = run.make({}, 6);
  run.core.release(a);
  EXPECT_EQ(run.core.memory(), 6u);
  run.make({}, 5);
  EXPECT_EQ(run.recorder.events(), (Events{"run 0", "evict 0", "run 1"}));
}

TEST(Unreferenced, IsEvictedAtOnceAndRecomputed) {
  Driven run(with(Unreferenced::evict));
  const Index a = run.make({}, 6);
  const Index b = run.make({a}, 5);
  run.core.release(a);
  EXPECT_EQ(run.core.memory(), 5u);
  run.make({a, b}, 1);
  EXPECT_EQ(run.recorder.events(), (Events{"run 0", "run 1", "release 0", "again 0", "run 2"}));
}

TEST(Unreferenced, PinsOutliveReleaseButNotBanishing) {
  for (const Unreferenced unreferenced : {Unreferenced::evict, Unreferenced::banish}) {
    Driven run(with(unreferenced));
    const Index constant = run.make({}, 6);
    run.core.pin(constant);
    run.core.release(constant);
    EXPECT_EQ(run.core.memory(), unreferenced == Unreferenced::evict ? 6u : 0u);
  }
}

// b cannot be recomputed once a is gone: a must stay until b, which is evicted, is there again. c, which the program
// dropped as well, is not waited for.
TEST(Unreferenced, IsBanishedWhenItsDescendantsAreThere) {
  Driven run(with(Unreferenced::banish, 10));
  const Index a = run.make({}, 4), b = run.make({a}, 3);
  const Index c = run.make({a}, 5);
  run.core.release(a);
  EXPECT_TRUE(run.core.pin(b));
  EXPECT_EQ(run.core.memory(), 7u);
  run.core.release(c);
  EXPECT_EQ(run.recorder.events(),
            (Events{"run 0", "run 1", "evict 1", "run 2", "evict 2", "again 1", "pin 1", "banish 0"}));
  EXPECT_EQ(run.core.memory(), 3u);
}

TEST(Unreferenced, WhatIsBanishedTakesItsAncestorsAlong) {
  Driven run(with(Unreferenced::banish, 9));
  const Index a = run.make({}, 4);
  const Index b = run.make({a}, 4);
  run.core.release(a);  // banished: b is there, and pinned from now on
  EXPECT_EQ(run.core.memory(), 4u);
  const Index c = run.make({b}, 4);
  run.core.release(b);
  run.core.release(c);
  EXPECT_EQ(run.core.memory(), 0u);
  EXPECT_THROW(run.core.run({1, {b}, {{1, kNone}}}), BadInput);
}

TEST(Rematerializer, RefusesWhatCannotBe) {
  Driven run(with(Unreferenced::evict));
  const Index a = run.make({}, 4);
  EXPECT_THROW(run.core.run({1, {}, {}}), BadInput);
  EXPECT_THROW(run.core.run({-1, {}, {{1, kNone}}}), BadInput);
  EXPECT_THROW(run.core.run({1, {7}, {{1, kNone}}}), BadInput);
  EXPECT_THROW(run.core.run({1, {a}, {{0, 1}}}), BadInput);
  run.core.release(a);
  EXPECT_THROW(run.core.release(a), BadInput);
  EXPECT_THROW(run.core.retain(a), BadInput);
}

// A chain of recomputations as long as the program does not overflow the call stack.
TEST(Rematerializer, RecomputesALongChain) {
  const Trace trace = ChainBuilder().build(100'000);
  Options options = with(Unreferenced::evict, 3);
  options.repeated_limit = trace.time;
  const Simulation simulation = simulate(trace, options);
  EXPECT_EQ(simulation.failure, Failure::thrashing);
  EXPECT_EQ(simulation.rematerializations,
            static_cast<std::uint64_t>(trace.time) + 1);  // unit ops: one above the limit
}

// Counts how often it is asked; the score of a storage is its size.
class Counting final : public Heuristic {
 public:
  explicit Counting(const State& state) : state_(state) {}
  double score(Index storage, double /*bound*/) override {
    ++asked;
    return static_cast<double>(state_.graph.storages()[storage].size);
  }
  int asked = 0;

 private:
  const State& state_;
};

struct Candidates {
  explicit Candidates(const std::vector<Bytes>& sizes) : heuristic(state) {
    for (const Bytes size : sizes) state.graph.add({1, {}, {{size, kNone}}});
  }
  std::vector<Index> choose(const Shortcuts& shortcuts, Bytes missing = 1) {
    Search search(state, heuristic, shortcuts);
    for (Index storage = 0; storage < state.graph.storages().size(); ++storage) search.add(storage);
    for (const Index storage : locked) search.remove(storage);
    return search.choose(missing);
  }

  State state;
  Counting heuristic;
  std::vector<Index> locked;
};

TEST(Shortcuts, SmallStoragesAreIgnoredWhileThereAreOthers) {
  Candidates some({1, 5000, 4000, 2});  // the mean is above 2000
  Shortcuts shortcuts;
  EXPECT_EQ(some.choose(shortcuts), std::vector<Index>{0});
  shortcuts.ignore_small = true;
  EXPECT_EQ(some.choose(shortcuts), std::vector<Index>{2});
  some.locked = {1, 2};
  EXPECT_EQ(some.choose(shortcuts), std::vector<Index>{0});
}

TEST(Shortcuts, ASampleIsAboutTwiceTheRoot) {
  std::vector<Bytes> sizes(10'000);
  std::iota(sizes.begin(), sizes.end(), 1);
  Candidates many(sizes);
  Shortcuts shortcuts;
  shortcuts.sample = true;
  std::set<Index> chosen;
  int asked = 0;
  for (shortcuts.seed = 0; shortcuts.seed < 20; ++shortcuts.seed) {
    many.heuristic.asked = 0;
    const std::vector<Index> once = many.choose(shortcuts);
    asked += many.heuristic.asked;
    EXPECT_EQ(many.choose(shortcuts), once);
    chosen.insert(once.begin(), once.end());
  }
  EXPECT_NEAR(asked / 20.0, 2 * std::sqrt(10'000), 20);
  EXPECT_GT(chosen.size(), 10u);
  EXPECT_LT(*chosen.rbegin(), 101u);  // the smallest that is looked at is among the first strides
}

TEST(Shortcuts, ABatchIsTheCheapestThatSuffice) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    std::vector<Bytes> sizes(30);
    for (Bytes& size : sizes) size = random() % 9;
    Candidates some(sizes);
    Shortcuts shortcuts;
    shortcuts.batch = i % 2 ? 1 : 0.5;
    const Bytes missing = 1 + random() % 60;
    const std::vector<Index> chosen = some.choose(shortcuts, missing);
    EXPECT_EQ(some.heuristic.asked, 30);
    double freed = 0, before = 0, least = 0;
    for (const Index storage : chosen) {
      before = freed;
      freed += static_cast<double>(sizes[storage]);
      EXPECT_GE(static_cast<double>(sizes[storage]), least);
      least = static_cast<double>(sizes[storage]);
    }
    const double wanted = shortcuts.batch * static_cast<double>(missing);
    EXPECT_TRUE(chosen.size() == 1 || before < wanted);
    EXPECT_TRUE(chosen.size() == 30 || freed >= wanted);
    for (Index storage = 0; storage < 30; ++storage) {
      const bool taken = std::count(chosen.begin(), chosen.end(), storage) == 1;
      EXPECT_TRUE(taken || static_cast<double>(sizes[storage]) >= least);
    }
  }
}

// Every shortcut keeps to the budget and finishes a program that the full search finishes; a seed determines the
// decisions.
TEST(Shortcuts, KeepTheBudget) {
  const Trace trace = ChainBuilder().build(300);
  for (int bits = 0; bits < 8; ++bits) {
    Options options = with(Unreferenced::evict, 40, Score::dtr_eq);
    options.shortcuts.ignore_small = bits & 1;
    options.shortcuts.sample = bits & 2;
    options.shortcuts.batch = bits & 4 ? 1 : 0;
    const Simulation once = simulate(trace, options), again = simulate(trace, options);
    EXPECT_EQ(once.failure, Failure::none) << bits;
    EXPECT_LE(once.peak, 40u) << bits;
    EXPECT_EQ(once.clock, again.clock) << bits;
    EXPECT_EQ(once.evictions, again.evictions) << bits;
  }
}

}  // namespace
}  // namespace l2l::compiler::remat::dtr

#include "compiler/memory/search/search.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include "compiler/memory/bounds.h"
#include "compiler/memory/greedy.h"
#include "compiler/memory/planner.h"
#include "tests/compiler/memory/known_optimum.h"
#include "tests/support/instrumented.h"

namespace l2l::compiler::memory {
namespace {

using MakeSearch = std::unique_ptr<Search> (*)(const Blocks&, const SearchLimits&);
constexpr MakeSearch kAll[] = {exact_search, local_search, priority_search};
constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};
using Clock = std::chrono::steady_clock;

SearchResult one_above_the_other(const Blocks& blocks) {
  const Placement placement = place(blocks, {Method::gaps, Order::begin, Fit::first});
  return {placement.offsets, placement.footprint, false};
}

SearchLimits limits_of(const Problem& problem, double seconds, int threads = 1) {
  SearchLimits limits;
  limits.bound = lower_bound(problem).bytes;
  limits.deadline = Clock::now() + std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6));
  limits.threads = threads;
  return limits;
}

SearchResult run(MakeSearch make, const Problem& problem, const SearchLimits& limits,
                 std::uint64_t steps = kUnlimited) {
  const Blocks blocks(problem);
  const SearchResult first = one_above_the_other(blocks);
  SearchResult result = first;
  if (const std::unique_ptr<Search> search = make(blocks, limits)) search->run(result, steps);
  EXPECT_LE(result.footprint, first.footprint);
  EXPECT_EQ(validate(problem, blocks.plan(result.offsets)), "");
  return result;
}

// The smallest footprint of all plans, sizes aligned up. Some order of first fit reaches it: sort a smallest plan by
// offset; then the lowest free place of each is at or below the one it has there.
class BruteForce {
 public:
  explicit BruteForce(const Problem& problem) : problem_(problem), offsets_(problem.tensors.size()) {
    for (Index i = 0; i < offsets_.size(); ++i) {
      if (!lives(i)) continue;
      if (problem.tensors[i].offset) {
        offsets_[i] = *problem.tensors[i].offset;
        placed_.push_back(i);
      } else {
        left_.push_back(i);
      }
    }
  }

  Bytes smallest() {
    std::sort(left_.begin(), left_.end());
    Bytes best = ~Bytes{0};
    do {
      std::vector<Index> placed = placed_;
      for (const Index i : left_) {
        offsets_[i] = lowest_place(i, placed);
        placed.push_back(i);
      }
      Bytes footprint = 0;
      for (const Index i : placed) footprint = std::max(footprint, offsets_[i] + size(i));
      best = std::min(best, footprint);
    } while (std::next_permutation(left_.begin(), left_.end()));
    return best;
  }

 private:
  bool lives(Index i) const { return size(i) > 0 && !may_share(problem_, i, i); }
  Bytes size(Index i) const { return align_up(problem_.tensors[i].size, problem_.alignment); }

  Bytes lowest_place(Index i, const std::vector<Index>& placed) const {
    for (Bytes place = 0;; place += problem_.alignment) {
      const bool free = std::none_of(placed.begin(), placed.end(), [&](Index j) {
        return !may_share(problem_, i, j) && place < offsets_[j] + size(j) && offsets_[j] < place + size(i);
      });
      if (free) return place;
    }
  }

  const Problem& problem_;
  std::vector<Bytes> offsets_;
  std::vector<Index> placed_, left_;
};

// One that no other lies in.
void pin_one(Random& random, Problem& problem) {
  problem.tensors[random() % problem.tensors.size()].offset = random() % 6 * problem.alignment;
}

TEST(ExactSearch, IsBruteForce) {
  Random random(11);
  int above_bound = 0;
  for (int i = 0; i < 1500; ++i) {
    const Bytes alignment = Bytes{1} << uniform(random, 0, 2);
    Problem problem = i % 2 ? random_problem(random, uniform(random, 1, 6), 6, 12, alignment)
                            : random_streams(random, uniform(random, 1, 6), 1 + random() % 3, 9, 12, alignment);
    if (i % 3 == 0) pin_one(random, problem);
    for (Index t = 0; t < problem.tensors.size(); ++t) {
      if (may_share(problem, t, t)) problem.tensors[t].size = 0;  // else it ends somewhere, though it never lives
    }
    const Bytes smallest = BruteForce(problem).smallest();
    if (smallest == ~Bytes{0}) continue;
    const SearchResult result = run(exact_search, problem, limits_of(problem, 10));
    if (Blocks(problem).count() == 0) continue;
    ASSERT_TRUE(result.complete) << i;
    ASSERT_EQ(result.footprint, smallest) << i;
    above_bound += smallest > align_up(lower_bound(problem).bytes, alignment);
  }
  EXPECT_GT(above_bound, 5);  // so that some were proved by the search, not by the bound
}

TEST(ExactSearch, ReachesKnownOptima) {
  Random random(12);
  for (const auto& [streams, count, wheels] :
       {std::tuple{1, 60, 0}, {1, 500, 0}, {1, 60, 100}, {1, 250, 100}, {1, 120, 30}, {2, 60, 20}}) {
    const Problem problem = known_optimum(random, static_cast<std::size_t>(streams), static_cast<std::size_t>(count),
                                          static_cast<std::uint64_t>(wheels));
    const SearchResult result = run(exact_search, problem, limits_of(problem, 20, 2));
    EXPECT_EQ(result.footprint, kKnownOptimum) << streams << " streams, " << count << " tensors";
    EXPECT_TRUE(result.complete);
  }
}

// Calls task() on a thread with a stack of `bytes`.
void run_on_stack(std::size_t bytes, std::function<void()> task) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  const auto call = [](void* given) -> void* {
    (*static_cast<std::function<void()>*>(given))();
    return nullptr;
  };
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, call, &task), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

// Each tensor meets the one before and the one after, so that every decision depends on the one before.
TEST(ExactSearch, NeedsNoStackForManyTensors) {
  Problem problem;
  for (int i = 0; i < 6000; ++i) problem.add({"t" + std::to_string(i), 64}, i, i + 2);
  const Blocks blocks(problem);
  SearchResult result;
  for (Index block = 0; block < blocks.count(); ++block) result.offsets.push_back(block * 64);
  result.footprint = blocks.count() * 64;
  run_on_stack(256 << 10, [&] { exact_search(blocks, limits_of(problem, 60))->run(result, kUnlimited); });
  EXPECT_EQ(result.footprint, 128u);
  EXPECT_EQ(validate(problem, blocks.plan(result.offsets)), "");
}

TEST(SearchesOfOrders, ComeNearKnownOptima) {
  Random random(13);
  for (const std::size_t streams : {1, 3}) {
    const Problem problem = known_optimum(random, streams, 90, 20);
    const SearchLimits limits = limits_of(problem, 20, 2);
    EXPECT_LE(run(local_search, problem, limits, 50'000'000).footprint, kKnownOptimum + kKnownOptimum / 8);
    EXPECT_LE(run(priority_search, problem, limits, 50'000'000).footprint, kKnownOptimum + kKnownOptimum / 4);
  }
}

TEST(SearchesOfOrders, KeepGroupsAndPinnedTensors) {
  Random random(14);
  for (int i = 0; i < 300; ++i) {
    Problem problem = i % 2 ? random_problem(random, 12, 6, 20, 4) : random_streams(random, 12, 2, 9, 20, 4);
    add_random_groups(random, problem);
    if (i % 3 == 0) {
      Index pinned = random() % problem.tensors.size();
      for (const auto& group : problem.groups) {
        if (std::find(group.begin(), group.end(), pinned) != group.end()) pinned = group[0];
      }
      problem.tensors[pinned].offset = random() % 6 * 4;
    }
    const SearchLimits limits = limits_of(problem, 10);
    run(local_search, problem, limits, 100'000);
    run(priority_search, problem, limits, 100'000);
    const Blocks blocks(problem);
    EXPECT_EQ(exact_search(blocks, limits) == nullptr, blocks.grouped());
  }
}

// With a limit of steps instead of time, so that searches end that find nothing too.
TEST(Searches, AreTheSameWithOneThreadAndTwo) {
  Random random(15);
  for (int i = 0; i < 12; ++i) {
    const Problem problem = i % 3 == 0   ? known_optimum(random, 1, 150, 30)
                            : i % 3 == 1 ? random_streams(random, 60, 3, 40, 1000, 1)
                                         : random_problem(random, 80, 30, 1000, 1);
    for (const MakeSearch search : kAll) {
      SearchLimits limits = limits_of(problem, 60);
      limits.seed = 1 + random() % 9;
      const SearchResult one = run(search, problem, limits, 10'000'000);
      limits.threads = 2;
      const SearchResult two = run(search, problem, limits, 10'000'000);
      EXPECT_EQ(one.offsets, two.offsets) << i;
      EXPECT_EQ(one.complete, two.complete) << i;
    }
  }
}

// Problems that cannot be solved in this time (see the first lines of the test).
TEST(Searches, StopAtTheDeadline) {
  L2L_NEEDS_TRUE_TIMES();
  Random random(16);
  for (const Problem& problem :
       {random_problem(random, 3000, 200, 1 << 20, 1), random_streams(random, 1500, 4, 300, 1 << 20, 1)}) {
    const Blocks blocks(problem);
    for (const MakeSearch make : kAll) {
      SearchLimits limits = limits_of(problem, 0);
      limits.bound = 1;
      double late = 1;
      for (int tries = 0; tries < 3 && late > 0.1; ++tries) {  // others may use the machine
        limits.deadline = Clock::now() + std::chrono::milliseconds(300);
        SearchResult result = one_above_the_other(blocks);
        make(blocks, limits)->run(result, kUnlimited);
        late = std::chrono::duration<double>(Clock::now() - limits.deadline).count();
      }
      EXPECT_LT(late, 0.1) << blocks.count() << " blocks";
    }
  }
}

// Repeated calls of run() never lose a plan.
TEST(Searches, GoOnWhereTheyStopped) {
  Random random(18);
  const Problem problem = known_optimum(random, 1, 200, 60);
  const Blocks blocks(problem);
  for (const MakeSearch make : kAll) {
    SearchResult result = one_above_the_other(blocks);
    const std::unique_ptr<Search> search = make(blocks, limits_of(problem, 20));
    std::vector<Bytes> footprints;
    for (int turn = 0; turn < 8; ++turn) {
      search->run(result, 10'000'000);
      EXPECT_EQ(validate(problem, blocks.plan(result.offsets)), "");
      footprints.push_back(result.footprint);
    }
    EXPECT_TRUE(std::is_sorted(footprints.rbegin(), footprints.rend()));
    EXPECT_LT(footprints.back(), one_above_the_other(blocks).footprint);
  }
}

// Negative control: run(), the check of every test here, notices a block that moved.
TEST(Searches, AreValidated) {
  Random random(17);
  const Problem problem = known_optimum(random, 1, 60, 0);
  const Blocks blocks(problem);
  SearchResult result = one_above_the_other(blocks);
  exact_search(blocks, limits_of(problem, 20))->run(result, kUnlimited);
  ASSERT_EQ(result.footprint, kKnownOptimum);
  for (Index block = 0; block < blocks.count(); ++block) {
    if (blocks.size(block) == kKnownOptimum) continue;  // alone
    const Bytes before = result.offsets[block];
    result.offsets[block] += before == 0 ? 1 : -1;
    EXPECT_NE(validate(problem, blocks.plan(result.offsets)), "") << block;
    result.offsets[block] = before;
  }
}

}  // namespace
}  // namespace l2l::compiler::memory

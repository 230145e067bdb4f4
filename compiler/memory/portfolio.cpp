#include "compiler/memory/portfolio.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "compiler/memory/greedy.h"
#include "compiler/memory/interference.h"
#include "compiler/memory/planner.h"
#include "compiler/memory/search/search.h"

// The schedule: one greedy order, a short local search, the other greedy orders, then exact and local search by turns
// of doubling length. Turns are counted in steps, so that the result does not depend on the machine.
namespace l2l::compiler::memory {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kFirstTurn = 10'000'000;    // steps of the local search, at most an eighth of all steps
constexpr std::uint64_t kGreedySteps = 25'000'000;  // of all greedy orders but the first
constexpr std::uint64_t kStepsPerNeighbour = 4;     // of a greedy order
constexpr std::size_t kMostOnStreams = 50'000;      // tensors: every pair is compared
constexpr std::size_t kFewBlocks = 1'000;           // the exact search has a good chance
constexpr std::uint64_t kTurnsOfFew = 8;
constexpr std::size_t kManyBlocks = 3'000;  // from here on the local search beats a greedy order in less time

bool too_many(const Problem& problem) {
  const std::vector<Index> tensors = live_tensors(problem);
  if (problem.streams > 1 && tensors.size() > kMostOnStreams) return true;
  const bool surely_few = tensors.size() * tensors.size() / 2 <= kMostInterferences;
  return !surely_few && count_interferences(problem, tensors) > kMostInterferences;
}

// The best plan so far, and the improvements that led to it.
class Incumbent {
 public:
  Incumbent(Solution& solution, Clock::time_point start) : solution_(solution), start_(start) {}

  // Thread-safe. Whether a plan of lower rank meets the bound, so that `rank` need not be tried.
  bool decided(std::size_t rank) const { return met_by_.load(std::memory_order_relaxed) < rank; }

  // Thread-safe. Of equal footprints the lower rank wins, so that the winner does not depend on timing. No two plans
  // have the same rank.
  void offer(Plan plan, const std::string& solver, std::size_t rank) {
    const std::lock_guard lock(mutex_);
    const bool first = solution_.curve.empty();
    if (first || plan.footprint < solution_.plan.footprint) {
      const std::chrono::duration<double> seconds = Clock::now() - start_;
      solution_.curve.push_back({seconds.count(), plan.footprint, solver});
    } else if (plan.footprint > solution_.plan.footprint || rank > rank_) {
      return;
    }
    solution_.plan = std::move(plan);
    solution_.solver = solver;
    rank_ = rank;
    if (solution_.plan.footprint <= solution_.bound.bytes) met_by_ = std::min(met_by_.load(), rank);
  }

 private:
  Solution& solution_;
  const Clock::time_point start_;
  std::mutex mutex_;  // guards solution_ and rank_
  std::size_t rank_ = 0;
  std::atomic<std::size_t> met_by_ = ~std::size_t{0};
};

// Thread-bound.
class Portfolio {
 public:
  Portfolio(const Blocks& blocks, const PortfolioOptions& options, Solution& solution, Incumbent& best)
      : blocks_(blocks), options_(options), solution_(solution), best_(best), steps_left_(options.steps) {}

  void run() {
    const bool all = options_.solver == Solver::portfolio;
    const std::uint64_t first_turn = std::min(kFirstTurn, 1 + options_.steps / 8);
    if (options_.solver == Solver::greedy) return run_greedy(0, all_greedy().size());
    if (!skips_greedy()) run_greedy(0, 1);
    if (done()) return;
    if (all || options_.solver == Solver::local) local_ = local_search(blocks_, limits("local search", 1));
    if (all) {
      take_turn(*local_, first_turn);
      const std::uint64_t steps_each = kStepsPerNeighbour * (1 + blocks_.count() + blocks_.steps());
      const std::uint64_t greedy = std::min(kGreedySteps, options_.steps) / steps_each;
      if (!skips_greedy()) run_greedy(1, std::min<std::uint64_t>(all_greedy().size(), 1 + greedy));
      if (done()) return;
    }
    if (options_.solver != Solver::local) exact_ = exact_search(blocks_, limits("exact search", 2));
    for (std::uint64_t turn = first_turn; !done(); turn *= 2) {
      if (exact_) take_turn(*exact_, blocks_.count() <= kFewBlocks ? kTurnsOfFew * turn : turn);
      if (local_) take_turn(*local_, turn);
      if (!exact_ && !local_) return;
    }
  }

 private:
  static constexpr std::size_t kRanks = 1000;  // per search; greedy orders rank before all searches

  bool skips_greedy() const { return blocks_.count() > kManyBlocks && blocks_.unconstrained(); }

  bool late() const { return Clock::now() >= options_.deadline; }
  bool done() const { return solution_.complete || best_.decided(~std::size_t{0} - 1) || steps_left_ == 0 || late(); }

  // Each thread takes the next order of the list. Orders before one that meets the bound are still completed, so that
  // the first of the list wins with any number of threads.
  void run_greedy(std::size_t first, std::size_t last) {
    const std::vector<Greedy> all = all_greedy();
    std::atomic<std::size_t> next = first;
    const auto work = [&] {
      for (std::size_t i = next++; i < last && !best_.decided(2 * i + 1); i = next++) {
        if (late()) return;
        const Placement placement = place(blocks_, all[i]);
        best_.offer(blocks_.plan(placement.offsets), name_of(all[i]), 2 * i + 1);
        if (best_.decided(2 * i + 2) || late()) return;
        best_.offer(blocks_.plan(compact(blocks_, placement).offsets), name_of(all[i]) + ", compacted", 2 * i + 2);
      }
    };
    std::vector<std::thread> others;
    for (int t = 1; t < options_.threads && first + 1 < last; ++t) others.emplace_back(work);
    work();
    for (std::thread& thread : others) thread.join();
  }

  SearchLimits limits(const char* name, std::size_t rank) {
    SearchLimits limits;
    limits.bound = solution_.bound.bytes;
    limits.deadline = options_.deadline;
    limits.seed = options_.seed;
    limits.threads = options_.threads;
    limits.improved = [this, name, rank](const SearchResult& found) {
      Plan plan = blocks_.plan(found.offsets);
      if (plan.footprint < solution_.plan.footprint) best_.offer(std::move(plan), name, rank * kRanks);
    };
    return limits;
  }

  void take_turn(Search& search, std::uint64_t steps) {
    if (done()) return;
    SearchResult result;
    for (Index b = 0; b < blocks_.count(); ++b) {
      result.offsets.push_back(solution_.plan.offsets[blocks_.parts(b)[0].tensor]);
      result.footprint = std::max(result.footprint, result.offsets.back() + blocks_.size(b));
    }
    steps = std::min(steps, steps_left_);
    steps_left_ -= steps;
    search.run(result, steps);
    solution_.complete = result.complete;
  }

  const Blocks& blocks_;
  const PortfolioOptions& options_;
  Solution& solution_;
  Incumbent& best_;
  std::uint64_t steps_left_;
  std::unique_ptr<Search> local_, exact_;
};

}  // namespace

Solution solve(const Problem& problem, const PortfolioOptions& options) {
  const Clock::time_point start = Clock::now();
  check(problem);
  Solution solution;
  solution.bound = lower_bound(problem);
  Incumbent best(solution, start);
  const bool large = too_many(problem);
  best.offer(plan_by_sweep(problem), "sweep", 0);
  if (!large && !best.decided(1)) {
    const Blocks blocks(problem);
    Portfolio(blocks, options, solution, best).run();
  }
  solution.complete = solution.complete || solution.plan.footprint <= solution.bound.bytes;
  return solution;
}

// It counts steps, not time: a program has the same plan on every machine.
Plan plan(const Problem& problem) { return solve(problem, {}).plan; }

}  // namespace l2l::compiler::memory

#include "device/planner/portfolio.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "device/planner/greedy.h"
#include "device/planner/meetings.h"
#include "device/planner/planner.h"

namespace l2l::device::planner {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOnStreams = 50'000;  // every pair of them is looked at

bool too_many(const Problem& problem) {
  const std::vector<Index> tensors = living(problem);
  if (problem.streams > 1 && tensors.size() > kMostOnStreams) return true;
  const bool surely_few = tensors.size() * tensors.size() / 2 <= kMostMeetings;
  return !surely_few && count_meetings(problem, tensors) > kMostMeetings;
}

// Thread-bound but for offer(). The best plan so far and the steps to it.
class Best {
 public:
  Best(Solution& solution, Clock::time_point start) : solution_(solution), start_(start) {}

  // Thread-safe. Whether one of lower rank meets the bound, so that `rank` need not be tried.
  bool decided(std::size_t rank) const { return met_by_.load(std::memory_order_relaxed) < rank; }

  // Thread-safe.
  bool any() const { return any_.load(std::memory_order_relaxed); }

  // Thread-safe. Of equal footprints the lower rank wins, whoever comes first; ranks differ.
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
    any_ = true;
    if (solution_.plan.footprint <= solution_.bound.bytes) met_by_ = rank;
  }

 private:
  Solution& solution_;
  const Clock::time_point start_;
  std::mutex mutex_;  // guards solution_ and rank_
  std::size_t rank_ = 0;
  std::atomic<bool> any_ = false;
  std::atomic<std::size_t> met_by_ = ~std::size_t{0};
};

// Takes the orders one after the other, each thread the next: all before one that meets the bound are tried to their
// end, so that the first in the list wins, with any number of threads.
void run_greedy(const Blocks& blocks, const PortfolioOptions& options, Clock::time_point deadline, Best& best) {
  const std::vector<Greedy> all = all_greedy();
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < all.size() && !best.decided(2 * i + 1); i = next++) {
      if (best.any() && Clock::now() > deadline) return;
      const Placement placement = place(blocks, all[i]);
      best.offer(blocks.plan(placement.offsets), name_of(all[i]), 2 * i + 1);
      if (best.decided(2 * i + 2) || Clock::now() > deadline) return;
      best.offer(blocks.plan(settle(blocks, placement).offsets), name_of(all[i]) + ", settled", 2 * i + 2);
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < options.threads; ++t) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
}

}  // namespace

Solution solve(const Problem& problem, const PortfolioOptions& options) {
  const Clock::time_point start = Clock::now();
  check(problem);
  Solution solution;
  solution.bound = lower_bound(problem);
  Best best(solution, start);
  const bool large = too_many(problem);
  if (large || problem.streams == 1) best.offer(plan_by_sweep(problem), "sweep", 0);
  if (!large && !best.decided(1)) {
    const Blocks blocks(problem);
    run_greedy(blocks, options, options.deadline, best);
  }
  solution.complete = solution.complete || solution.plan.footprint <= solution.bound.bytes;
  return solution;
}

}  // namespace l2l::device::planner

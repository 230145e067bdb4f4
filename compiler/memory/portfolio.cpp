#include "compiler/memory/portfolio.h"

#include <algorithm>
#include <optional>

#include "compiler/memory/greedy.h"
#include "compiler/memory/interference.h"
#include "compiler/memory/planner.h"
#include "compiler/memory/search/search.h"

// The schedule: a sweep, one greedy order, the bound, a short local search, all greedy orders of a small problem, then
// priority search of a larger one, exact and local search by turns of doubling length. Turns are counted in steps, so
// that the result does not depend on the machine. The bound of several streams may take all the time there is, so it
// comes when there is a plan.
namespace l2l::compiler::memory {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kFirstTurn = 10'000'000;  // steps of the local search, at most an eighth of all steps
constexpr std::uint64_t kFewSteps = 50'000;       // of one greedy order: all of them take little time
constexpr std::size_t kMostOnStreams = 50'000;    // tensors: every pair is compared
constexpr std::size_t kFewBlocks = 1'000;         // the exact search has a good chance
constexpr std::uint64_t kTurnsOfFew = 8;
constexpr std::uint64_t kTurnsOfPriority = 4;
// From here on the local search of one stream beats a greedy order in less time, and goes without the graph.
constexpr std::size_t kManyBlocks = 3'000;

bool too_many(const Problem& problem, const std::function<bool()>& stop) {
  const std::vector<Index> tensors = live_tensors(problem);
  if (problem.streams > 1 && tensors.size() > kMostOnStreams) return true;
  const bool surely_few = tensors.size() * tensors.size() / 2 <= kMostInterferences;
  return !surely_few && count_interferences(problem, tensors, stop) > kMostInterferences;
}

// All orders but Greedy{}, which goes before the bound.
std::vector<Greedy> further_greedy() {
  std::vector<Greedy> all = all_greedy();
  all.erase(all.begin());
  return all;
}

// Thread-bound.
class Portfolio {
 public:
  Portfolio(const PortfolioOptions& options, Solution& solution)
      : options_(options), solution_(solution), steps_left_(options.steps) {}

  void offer(Plan plan, const std::string& solver) {
    if (!solution_.curve.empty() && plan.footprint >= solution_.plan.footprint) return;
    const std::chrono::duration<double> seconds = Clock::now() - start_;
    solution_.curve.push_back({seconds.count(), plan.footprint, solver});
    solution_.plan = std::move(plan);
    solution_.solver = solver;
    complete_at_bound();
  }

  // Of several streams; for one there is no other than the quick one.
  void raise_bound(const Problem& problem) {
    if (problem.streams == 1 || met_or_late()) return;
    solution_.bound = lower_bound(problem, [this] { return late(); });
    complete_at_bound();
  }

  void run(const Blocks& blocks) {
    if (blocks.connected()) run_greedy(blocks, {Greedy{}});
    raise_bound(blocks.problem());
    if (options_.solver == Solver::greedy) return run_greedy(blocks, further_greedy());
    const std::uint64_t first_turn = std::min(kFirstTurn, 1 + options_.steps / 8);
    const std::uint64_t turns = blocks.count() <= kFewBlocks ? kTurnsOfFew : 1;
    std::optional<Blocks> connected;
    std::unique_ptr<Search> local, priority, exact;
    if (options_.solver != Solver::exact) local = local_search(blocks, limits(blocks, "local search"));
    if (options_.solver == Solver::portfolio) {
      take_turn(blocks, *local, first_turn);
      if (blocks.connected() && blocks.steps() <= kFewSteps) run_greedy(blocks, further_greedy());
    }
    if (options_.solver != Solver::local && !done()) {
      if (!blocks.connected() && can_search_exactly(blocks) && !too_many(blocks.problem(), {})) {
        connected.emplace(blocks.problem(), /*connected=*/true, [this] { return late(); });
        if (!connected->connected()) connected.reset();
      }
      if (connected || blocks.connected())
        exact = exact_search(connected ? *connected : blocks, limits(blocks, "exact search"));
    }
    if (options_.solver == Solver::portfolio && blocks.count() > kFewBlocks)
      priority = priority_search(blocks, limits(blocks, "priority search"));
    for (std::uint64_t turn = first_turn; (exact || local) && !done(); turn *= 2) {
      if (priority) take_turn(blocks, *priority, kTurnsOfPriority * turn);
      if (exact) take_turn(blocks, *exact, turns * turn);
      if (local) take_turn(blocks, *local, turn);
    }
  }

 private:
  void complete_at_bound() {
    solution_.complete = solution_.complete || solution_.plan.footprint <= solution_.bound.bytes;
  }
  bool late() const { return Clock::now() >= options_.deadline; }
  // A plan that a search calls complete may still be above the bound by less than the alignment, for what it ends with.
  bool met_or_late() const { return solution_.plan.footprint <= solution_.bound.bytes || late(); }
  bool done() const { return solution_.complete || steps_left_ == 0 || met_or_late(); }

  void run_greedy(const Blocks& blocks, const std::vector<Greedy>& all) {
    for (const Greedy& greedy : all) {
      if (met_or_late()) return;
      const std::optional<Placement> placement = place(blocks, greedy, [this] { return late(); });
      if (!placement) return;
      offer(blocks.plan(placement->offsets), name_of(greedy));
      if (met_or_late()) return;
      const std::optional<Placement> compacted = compact(blocks, *placement, [this] { return late(); });
      if (compacted) offer(blocks.plan(compacted->offsets), name_of(greedy) + ", compacted");
    }
  }

  SearchLimits limits(const Blocks& blocks, const char* name) {
    SearchLimits limits;
    limits.bound = solution_.bound.bytes;
    limits.deadline = options_.deadline;
    limits.seed = options_.seed;
    limits.threads = options_.threads;
    limits.improved = [this, &blocks, name](const SearchResult& found) { offer(blocks.plan(found.offsets), name); };
    return limits;
  }

  void take_turn(const Blocks& blocks, Search& search, std::uint64_t steps) {
    if (done()) return;
    SearchResult result;
    for (Index b = 0; b < blocks.count(); ++b) {
      result.offsets.push_back(solution_.plan.offsets[blocks.parts(b)[0].tensor]);
      result.footprint = std::max(result.footprint, result.offsets.back() + blocks.size(b));
    }
    steps = std::min(steps, steps_left_);
    steps_left_ -= steps;
    search.run(result, steps);
    solution_.complete = solution_.complete || result.complete;
  }

  const PortfolioOptions& options_;
  Solution& solution_;
  const Clock::time_point start_ = Clock::now();
  std::uint64_t steps_left_;
};

}  // namespace

Solution solve(const Problem& problem, const PortfolioOptions& options) {
  Solution solution;
  Portfolio portfolio(options, solution);
  const auto late = [&] { return Clock::now() >= options.deadline; };
  check(problem);
  solution.bound = quick_bound(problem);
  portfolio.offer(plan_by_sweep(problem), "sweep");
  if (solution.complete || late()) return solution;
  if (problem.streams == 1 && problem.tensors.size() > kManyBlocks && options.solver != Solver::greedy) {
    const Blocks unconnected(problem, /*connected=*/false);
    if (unconnected.unconstrained() && unconnected.count() > kManyBlocks) {
      portfolio.run(unconnected);
      return solution;
    }
  }
  const Blocks blocks(problem, /*connected=*/!too_many(problem, late), late);
  if (blocks.connected()) {
    portfolio.run(blocks);
  } else {
    portfolio.raise_bound(problem);
  }
  return solution;
}

// It counts steps, not time: a program has the same plan on every machine.
Plan plan(const Problem& problem) { return solve(problem, {}).plan; }

}  // namespace l2l::compiler::memory

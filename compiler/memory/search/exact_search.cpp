#include <algorithm>
#include <functional>

#include "compiler/memory/search/search.h"
#include "compiler/memory/search/shared.h"
#include "compiler/memory/search/skyline_search.h"

// Depth-first search with restarts (Luby, Sinclair, Zuckerman 1993). Each restart asks whether a plan fits below a
// capacity: the lowest one not ruled out yet, or, as long as that gets answers, one halfway to the best plan known.
// Conflict weights carry over from one restart to the next.
namespace l2l::compiler::memory {
namespace {

// kLowest finds most and costs least, but each of the others finds plans that it does not.
constexpr BranchingRule kRules[] = {BranchingRule::kLowest,   BranchingRule::kTightest, BranchingRule::kLowest,
                                    BranchingRule::kWeighted, BranchingRule::kLowest,   BranchingRule::kHeaviest};
constexpr double kReaches[] = {0.05, 0.15, 0.4};    // displacement of a block in its order, relative to their number
constexpr std::size_t kFirstOrder = 3;              // of sorted_orders(); then down
constexpr std::size_t kWave = 5;                    // restarts that run together
constexpr std::uint64_t kStepsPerBlock = 50;        // overhead of a restart
constexpr std::uint64_t kMostMembers = 4'000'000;   // of sections; with more, propagation takes too long
constexpr std::size_t kMostBlocksOnStreams = 4096;  // blocks on several streams

// 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ..., from number 1 on.
std::uint64_t luby(std::uint64_t number) {
  std::uint64_t power = 1;
  while (2 * power - 1 < number) power *= 2;
  return 2 * power - 1 == number ? power : luby(number - power + 1);
}

struct Answer {
  Outcome outcome = Outcome::kStopped;
  std::vector<Bytes> offsets;
  std::vector<double> weights;
  std::uint64_t steps = 0;
};

class ExactSearch : public Search {
 public:
  ExactSearch(const Blocks& blocks, const SearchLimits& limits)
      : limits_(limits),
        graph_(make_search_graph(blocks, [this] { return late(); })),
        orders_(sorted_orders(blocks)),
        alignment_(blocks.alignment()),
        low_(align_up(limits.bound, alignment_)),
        weights_(graph_.sections.count(), 1.0) {
    for (Index section = 0; section < graph_.sections.count(); ++section) low_ = std::max(low_, graph_.load(section));
  }

  void run(SearchResult& best, std::uint64_t steps) override {
    steps_left_ = steps;
    best_ = std::move(best);
    for (; best_.footprint > low_ && !late() && steps_left_ > 0; ++wave_) {
      const Bytes half = decided_ ? (best_.footprint - low_) / 2 / alignment_ * alignment_ : 0;
      decided_ = try_capacity(low_ + half);
    }
    best_.complete = best_.footprint <= low_;
    best = std::move(best_);
  }

 private:
  bool late() const { return std::chrono::steady_clock::now() >= limits_.deadline; }

  // Returns whether it found a plan, or that there is none.
  bool try_capacity(Bytes capacity) {
    std::vector<Answer> answers(kWave);
    const std::size_t first = wave_ * kWave;
    const std::uint64_t most_steps = 1 + steps_left_ / kWave;
    const std::size_t decided = race(kWave, limits_.threads, [&](std::size_t k, const std::function<bool()>& lost) {
      const std::function<bool()> stop = [&] { return lost() || late(); };
      answers[k] = restart(capacity, first + k, most_steps, stop);
      return answers[k].outcome != Outcome::kStopped;
    });
    for (std::size_t k = 0; k < std::min(decided + 1, kWave); ++k) learn(answers[k]);
    if (decided == kWave) return false;
    if (answers[decided].outcome == Outcome::kNone) low_ = capacity + alignment_;
    if (answers[decided].outcome == Outcome::kFound) take(std::move(answers[decided].offsets));
    return true;
  }

  // Orders and rules change with every restart. Once all of their combinations have been tried, orders are shuffled
  // within a reach, and restarts are longer.
  Answer restart(Bytes capacity, std::size_t number, std::uint64_t most_steps,
                 const std::function<bool()>& stop) const {
    const std::size_t cycle = number / (orders_.size() * std::size(kRules)), order = number % orders_.size();
    const std::vector<Index>& sorted = orders_[(kFirstOrder + orders_.size() - order) % orders_.size()];
    const BranchingRule rule = kRules[(order + number / orders_.size()) % std::size(kRules)];
    const double reach = cycle == 0 ? 0 : static_cast<double>(graph_.count()) * kReaches[cycle % std::size(kReaches)];
    SplitMix random(limits_.seed + number);
    std::vector<double> ranks(graph_.count());
    for (std::size_t at = 0; at < graph_.count(); ++at) {
      ranks[sorted[at]] = static_cast<double>(at) + reach * random.unit();
    }
    const std::uint64_t nodes = (graph_.count() + graph_.count() / 2 + 100) * luby(cycle + 1);

    Skyline skyline(graph_, capacity);
    skyline.conflict_weights() = weights_;
    SkylineSearch search(skyline, ranks, rule, {nodes, most_steps}, stop);
    Answer answer{search.run(), {}, {}};
    answer.steps = search.steps() + kStepsPerBlock * graph_.count() + graph_.sections.values.size();
    answer.weights = std::move(skyline.conflict_weights());
    if (answer.outcome == Outcome::kFound) {
      for (Index block = 0; block < graph_.count(); ++block) answer.offsets.push_back(skyline.lowest(block));
    }
    return answer;
  }

  void learn(const Answer& answer) {
    steps_left_ -= std::min(steps_left_, answer.steps);
    for (std::size_t section = 0; section < weights_.size(); ++section) {
      weights_[section] = std::max(weights_[section], answer.weights[section]);
    }
  }

  void take(std::vector<Bytes> offsets) {
    best_.footprint = 0;
    for (Index block = 0; block < graph_.count(); ++block) {
      best_.footprint = std::max(best_.footprint, offsets[block] + graph_.size[block]);
    }
    best_.offsets = std::move(offsets);
    if (limits_.improved) limits_.improved(best_);
  }

  const SearchLimits limits_;
  const SearchGraph graph_;
  const std::vector<std::vector<Index>> orders_;
  const Bytes alignment_;
  Bytes low_;  // capacities below it are ruled out
  SearchResult best_;
  bool decided_ = false;  // the last capacity
  std::size_t wave_ = 0;
  std::uint64_t steps_left_ = 0;
  std::vector<double> weights_;
};

}  // namespace

bool can_search_exactly(const Blocks& blocks) {
  if (blocks.grouped()) return false;
  if (blocks.problem().streams > 1) return blocks.count() <= kMostBlocksOnStreams;
  return make_timeline(blocks).members() <= kMostMembers;
}

std::unique_ptr<Search> exact_search(const Blocks& blocks, const SearchLimits& limits) {
  if (!can_search_exactly(blocks)) return nullptr;
  return std::make_unique<ExactSearch>(blocks, limits);
}

}  // namespace l2l::compiler::memory

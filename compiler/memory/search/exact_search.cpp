#include <algorithm>
#include <functional>

#include "compiler/memory/search/race.h"
#include "compiler/memory/search/search.h"
#include "compiler/memory/search/search_orders.h"
#include "compiler/memory/search/skyline_search.h"
#include "compiler/memory/search/timeline.h"

// Restarts with growing limits of nodes: each asks whether a plan fits below some capacity, first of all the lowest
// that is not ruled out, and in turn one between that and the best plan known.
namespace l2l::compiler::memory {
namespace {

// The first finds most and costs least, but each of the others finds what it does not.
constexpr Niche kTurns[] = {Niche::kLowest,   Niche::kTightest, Niche::kLowest,
                            Niche::kWeighted, Niche::kLowest,   Niche::kBlamed};
constexpr std::size_t kCombinations = kSearchOrders * std::size(kTurns);
constexpr std::size_t kWave = 5;  // restarts that are started together
constexpr std::size_t kWavesPerClimb = 4;
constexpr std::uint64_t kStepsPerBlock = 50;       // of a restart, in members looked at
constexpr std::uint64_t kMostMembers = 4'000'000;  // of sections: more take too long to look at
constexpr std::size_t kMostOnStreams = 4096;       // blocks on several streams

// 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ..., from number 1 on.
std::uint64_t luby(std::uint64_t number) {
  std::uint64_t power = 1;
  while (2 * power - 1 < number) power *= 2;
  return 2 * power - 1 == number ? power : luby(number - power + 1);
}

struct Answer {
  Outcome outcome = Outcome::kStopped;
  std::vector<Bytes> offsets;
  std::vector<double> blame;
  std::uint64_t steps = 0;
};

class ExactSearch : public Search {
 public:
  ExactSearch(const Blocks& blocks, const SearchLimits& limits)
      : limits_(limits),
        graph_(make_search_graph(blocks, [this] { return late(); })),
        alignment_(blocks.alignment()),
        low_(align_up(limits.bound, alignment_)),
        blame_(graph_.sections.count(), 1.0) {
    for (Index section = 0; section < graph_.sections.count(); ++section) low_ = std::max(low_, graph_.load(section));
  }

  void run(SearchResult& best, std::uint64_t steps) override {
    steps_left_ = steps;
    for (best_ = std::move(best); best_.footprint > low_ && !late() && steps_left_ > 0; ++wave_) {
      try_capacity(low_);
      if (wave_ % kWavesPerClimb == kWavesPerClimb - 1) climb();
    }
    best_.complete = best_.footprint <= low_;
    best = std::move(best_);
  }

 private:
  bool late() const { return std::chrono::steady_clock::now() >= limits_.deadline; }

  // Tries one between; the nearer to the best, the less luck there was.
  void climb() {
    const double way = static_cast<double>(best_.footprint - low_) * nearness_;
    const Bytes capacity = low_ + static_cast<Bytes>(way) / alignment_ * alignment_;
    if (capacity <= low_ || capacity >= best_.footprint) return;
    nearness_ = try_capacity(capacity) ? 0.5 : (1 + nearness_) / 2;
  }

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
    if (answers[decided].outcome == Outcome::kNone) low_ = std::max(low_, capacity + alignment_);
    if (answers[decided].outcome == Outcome::kFound) take(std::move(answers[decided].offsets));
    return true;
  }

  Answer restart(Bytes capacity, std::size_t number, std::uint64_t most_steps,
                 const std::function<bool()>& stop) const {
    const std::size_t cycle = number / kCombinations, order = number % kSearchOrders;
    const Niche niche = kTurns[(order + number / kSearchOrders) % std::size(kTurns)];
    const Ranks ranks = search_order(graph_, order + kSearchOrders * cycle, limits_.seed);
    const std::uint64_t nodes = (graph_.count() + graph_.count() / 2 + 100) * luby(cycle + 1);

    Skyline skyline(graph_, capacity);
    skyline.blame() = blame_;
    SkylineSearch search(skyline, ranks, niche, {nodes, most_steps}, stop);
    Answer answer{search.run(), {}, {}};
    answer.steps = search.steps() + kStepsPerBlock * graph_.count() + graph_.sections.values.size();
    answer.blame = std::move(skyline.blame());
    if (answer.outcome == Outcome::kFound) {
      for (Index block = 0; block < graph_.count(); ++block) answer.offsets.push_back(skyline.lowest(block));
    }
    return answer;
  }

  void learn(const Answer& answer) {
    steps_left_ -= std::min(steps_left_, answer.steps);
    for (std::size_t section = 0; section < blame_.size(); ++section) {
      blame_[section] = std::max(blame_[section], answer.blame[section]);
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
  const Bytes alignment_;
  Bytes low_;  // no plan is smaller
  SearchResult best_;
  double nearness_ = 0.5;
  std::size_t wave_ = 0;
  std::uint64_t steps_left_ = 0;
  std::vector<double> blame_;
};

bool small_enough(const Blocks& blocks) {
  if (blocks.problem().streams > 1) return blocks.count() <= kMostOnStreams;
  return make_timeline(blocks).members() <= kMostMembers;
}

}  // namespace

std::unique_ptr<Search> exact_search(const Blocks& blocks, const SearchLimits& limits) {
  if (blocks.grouped() || !small_enough(blocks)) return nullptr;
  return std::make_unique<ExactSearch>(blocks, limits);
}

}  // namespace l2l::compiler::memory

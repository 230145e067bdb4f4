#include <algorithm>
#include <deque>
#include <queue>
#include <tuple>
#include <utility>

#include "runtime/tuning/prediction.h"

namespace l2l::runtime {
namespace {

// Of gradients on their way out, on the device.
constexpr std::size_t kDrainSlots = 2;

// What becomes of gradients on the host: with several nodes they are exchanged, the parameter server checks and
// updates, and new weights are exchanged. The parameter server and each direction of the network do one thing at a
// time. Layers are numbered by their forward visits. Times are seconds.
class Updates {
 public:
  explicit Updates(const StepModel& model)
      : model_(model), waiting_of_(model.visits.size(), 0), updated_(model.visits.size()) {}

  // When a buffer is free for gradients that could leave the device at `now`; calls come in the order of time.
  double room(double now) {
    const auto buffers = static_cast<std::size_t>(model_.gradient_buffers);
    while (true) {
      while (!freed_.empty() && freed_.front() <= now) freed_.pop_front();
      if (taken_ + freed_.size() < buffers) return now;
      const std::size_t needed = taken_ + freed_.size() - buffers;
      if (needed < freed_.size()) return freed_[needed];  // in the order of time, as updates are
      run_one();
    }
  }
  void add(const VisitCost& visit, std::size_t layer, double arrival) {
    ++taken_;
    ++gradients_;
    wait({Stage::gradients, &visit, layer, arrival});
  }
  // Called when the last gradients of a pass have been added; when all are checked.
  double end_pass() {
    while (gradients_ > 0) run_one();
    for (Work& work : held_) {
      work.ready = std::max(work.ready, gathered_);
      wait(work);
    }
    held_.clear();
    return gathered_;
  }
  // When weights from other nodes are there that may come from `ready` on: after what was ready to be exchanged before.
  double bring(const VisitCost& visit, double ready) {
    if (visit.wires.either() == 0) return ready;
    while (!exchanges_.empty() && exchanges_.top().ready <= ready) run_one();
    return exchange(visit.wires, ready);
  }
  // When the version of a layer is there that the last pass made.
  double version(std::size_t layer) {
    while (waiting_of_[layer] > 0) run_one();
    return updated_[layer];
  }

 private:
  enum class Stage { gradients, update, weights };
  struct Work {
    Stage stage;
    const VisitCost* visit;
    std::size_t layer;
    double ready;
    std::size_t number = 0;  // in the order in which work came to wait
  };
  // What begins first has the least turn; of equals, an exchange or the lowest layer, then what has waited for longest.
  static std::tuple<double, std::size_t, std::size_t> turn(const Work& work, double begin) {
    return {begin, work.stage == Stage::update ? work.layer : 0, work.number};
  }
  struct ByReady {
    bool operator()(const Work& a, const Work& b) const { return turn(a, a.ready) > turn(b, b.ready); }
  };
  struct ByLayer {
    bool operator()(const Work& a, const Work& b) const { return turn(a, 0) > turn(b, 0); }
  };
  template <typename Later>
  using Queue = std::priority_queue<Work, std::vector<Work>, Later>;

  void wait(Work work) {
    ++waiting_of_[work.layer];
    work.number = count_++;
    if (work.stage == Stage::update) {
      updates_.push(work);
    } else {
      exchanges_.push(work);
    }
  }
  template <typename Later>
  static Work pop(Queue<Later>& queue) {
    const Work work = queue.top();
    queue.pop();
    return work;
  }

  // What begins first. Of updates that could begin, the one that the next pass needs first; exchanges begin when they
  // are ready, and queue in each direction.
  Work take_first() {
    while (!updates_.empty() && updates_.top().ready <= server_) due_.push(pop(updates_));
    if (due_.empty() && updates_.empty()) return pop(exchanges_);
    const Work& update = due_.empty() ? updates_.top() : due_.top();
    if (!exchanges_.empty()) {
      const Work& exchange = exchanges_.top();
      if (turn(exchange, exchange.ready) < turn(update, std::max(update.ready, server_))) return pop(exchanges_);
    }
    return due_.empty() ? pop(updates_) : pop(due_);
  }
  void run_one() {
    const Work work = take_first();
    --waiting_of_[work.layer];
    switch (work.stage) {
      case Stage::gradients:
        --gradients_;
        gathered_ = std::max(gathered_, exchange(work.visit->gradients, work.ready));
        if (model_.sums) free_buffer(gathered_);
        return go_on(work, Stage::update, gathered_);
      case Stage::update:
        server_ = std::max(work.ready, server_) + work.visit->update.seconds;
        if (!model_.sums) free_buffer(server_);
        return go_on(work, Stage::weights, server_);
      case Stage::weights:
        updated_[work.layer] = exchange(work.visit->weights, work.ready);
        return;
    }
  }
  // The end of what both directions take, from `ready` on.
  double exchange(const collectives::Traffic& bytes, double ready) {
    const auto take = [&](double& free, Bytes count) {
      return free = std::max(free, ready) + (model_.network > 0 ? static_cast<double>(count) / model_.network : 0);
    };
    const double sent = take(out_, bytes.sent), received = take(in_, bytes.received);
    return std::max(sent, received);
  }
  void free_buffer(double when) {
    --taken_;
    freed_.push_back(when);
  }
  void go_on(Work work, Stage stage, double ready) {
    work.stage = stage;
    work.ready = ready;
    if (model_.held && stage == Stage::update) {
      held_.push_back(work);
    } else {
      wait(work);
    }
  }

  const StepModel& model_;
  Queue<ByReady> exchanges_;              // of gradients and weights
  Queue<ByReady> updates_;                // that are ready later than the parameter server is free
  Queue<ByLayer> due_;                    // updates that are ready by then
  std::vector<Work> held_;                // updates that wait for the end of the pass
  std::size_t count_ = 0;                 // of all work that ever waited
  std::size_t gradients_ = 0;             // of them in exchanges_
  std::vector<std::size_t> waiting_of_;   // by layer: how much waits, apart from what is held
  std::size_t taken_ = 0;                 // buffers
  std::deque<double> freed_;              // when others became free, or will; ascending
  std::vector<double> updated_;           // by layer
  double server_ = 0, out_ = 0, in_ = 0;  // when each is free next
  double gathered_ = 0;                   // when the last gradients were exchanged
};

// Steps of a model, one after the other; times are seconds since the first one began.
class Pipeline {
 public:
  explicit Pipeline(const StepModel& model) : model_(model), updates_(model) {}

  // Returns when the pass is done and the next one may begin.
  double step() {
    computed_.assign(count(), begin_);
    left_.assign(count(), begin_);
    copied_.assign(count(), begin_);
    h2d_ = gathered_ = compute_ = d2h_ = begin_;
    for (std::size_t i = 0; i < count(); ++i) run(i);
    return begin_ = std::max({compute_, d2h_, updates_.end_pass()});
  }

 private:
  std::size_t count() const { return model_.visits.size(); }
  // The backward visit of the layer of a forward visit, and the other way round.
  std::size_t mirror(std::size_t visit) const { return count() - 1 - visit; }

  void run(std::size_t i) {
    const VisitCost& visit = model_.visits[i];
    const auto slots = static_cast<std::size_t>(model_.slots);
    const double slot = i < slots ? begin_ : computed_[i - slots];
    const double version = i <= mirror(i) ? updates_.version(i) : 0;
    const auto wires = static_cast<std::size_t>(model_.wire_slots);
    const double here = updates_.bring(visit, std::max(version, i < wires ? begin_ : copied_[i - wires]));
    copied_[i] = h2d_ = std::max({h2d_, slot, here}) + visit.h2d.seconds;
    gathered_ = std::max(gathered_, h2d_) + visit.gather.seconds;
    compute_ = std::max(compute_, gathered_) + visit.compute.seconds;
    const bool drains = i >= mirror(i);
    if (drains && i >= count() / 2 + kDrainSlots) compute_ = std::max(compute_, left_[i - kDrainSlots]);
    computed_[i] = compute_;
    d2h_ = std::max(d2h_, compute_);
    if (visit.updates()) d2h_ = updates_.room(d2h_);
    left_[i] = d2h_ += visit.exchange.seconds + visit.d2h.seconds;
    if (visit.updates()) updates_.add(visit, std::min(i, mirror(i)), d2h_);
  }

  const StepModel& model_;
  Updates updates_;
  std::vector<double> copied_;    // by visit of this step: its weights
  std::vector<double> computed_;  // by visit of this step
  std::vector<double> left_;      // by visit: when its gradients, and what else goes to the host, are there
  double begin_ = 0, h2d_ = 0, gathered_ = 0, compute_ = 0, d2h_ = 0;
};

// If exchanges took no time.
StepModel without_network(StepModel model) {
  model.network = 0;
  return model;
}

}  // namespace

VisitCost StepModel::sum() const {
  VisitCost total;
  for (const VisitCost& visit : visits) {
    for (const Resource& resource : kResources) total.*resource.cost = total.*resource.cost + visit.*resource.cost;
    total.gather = total.gather + visit.gather;
    total.exchange = total.exchange + visit.exchange;
    total.gradients = total.gradients + visit.gradients;
    total.weights = total.weights + visit.weights;
    total.wires = total.wires + visit.wires;
  }
  return total;
}

double StepModel::network_seconds() const {
  return network > 0 ? static_cast<double>(sum().exchanged().either()) / network : 0;
}

double StepModel::pipelined() const {
  constexpr int kWarmUp = 4, kSteps = 8;
  Pipeline pipeline(*this);
  double begin = 0, end = 0;
  for (int step = 0; step < kWarmUp; ++step) begin = pipeline.step();
  for (int step = 0; step < kSteps; ++step) end = pipeline.step();
  return (end - begin) / kSteps;
}

bool StepModel::shares() const { return computes_here(sum().compute); }

double StepModel::shared() const {
  const VisitCost total = sum();
  const double work =
      (total.compute + total.h2d + total.gather + total.exchange + total.d2h + total.update).processor / cores;
  return std::max(total.compute.seconds, work);
}

double StepModel::step_seconds(bool sharing_cores) const {
  if (!sharing_cores) return pipelined();
  const double alone = without_network(*this).pipelined();
  return sharing * std::max(alone, shared()) + pipelined() - alone;
}

std::string StepModel::bound() const {
  const VisitCost total = sum();
  const auto less = [&](const Resource& a, const Resource& b) {
    return (total.*a.cost).seconds < (total.*b.cost).seconds;
  };
  Resource busiest = *std::max_element(kResources.begin(), kResources.end(), less);
  for (const Resource& links : {kPeerLinks, kExchanges}) {
    if (less(busiest, links)) busiest = links;
  }
  return network_seconds() > (total.*busiest.cost).seconds ? kNetwork : busiest.name;
}

std::optional<double> hiding_bandwidth(StepModel model, double share) {
  const auto bytes = static_cast<double>(model.sum().exchanged().either());
  if (bytes == 0) return std::nullopt;
  const double longest = (1 + share) * without_network(model).step_seconds();
  const auto hides = [&](double bandwidth) {
    model.network = bandwidth;
    return model.step_seconds() <= longest;
  };
  constexpr int kHalvings = 20;
  double shows = bytes / longest / 2, hidden = 2 * shows;  // in half of it exchanges take two steps
  while (!hides(hidden)) shows = std::exchange(hidden, 2 * hidden);
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (shows + hidden) / 2;
    (hides(middle) ? hidden : shows) = middle;
  }
  return hidden;
}

}  // namespace l2l::runtime

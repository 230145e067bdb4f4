#include "tests/eps/model/explorer.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "tests/eps/model/world.h"

namespace l2l::eps::model {
namespace {

struct Node {
  World world;
  int running;           // the thread that made the last step; -1 at the start, and where it does not matter
  int preemptions;       // so far
  double schedules;      // that lead here
  std::string schedule;  // one of them: a digit per step
};

// All nodes at one depth. Steps only ever advance threads, so equal states have equal depths.
class Level {
 public:
  // Returns whether the state is new.
  bool add(Node node) {
    std::string key = node.world.key();
    key += static_cast<char>(node.running);
    key += static_cast<char>(node.preemptions);
    for (const std::size_t other : by_key_[key]) {
      if (!(nodes_[other].world.machine() == node.world.machine())) continue;
      nodes_[other].schedules += node.schedules;
      return false;
    }
    by_key_[std::move(key)].push_back(nodes_.size());
    nodes_.push_back(std::move(node));
    return true;
  }
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  std::vector<Node> nodes_;
  std::unordered_map<std::string, std::vector<std::size_t>> by_key_;
};

class Explorer {
 public:
  Explorer(const Scenario& scenario, int preemptions) : scenario_(scenario), most_(preemptions) {}

  Exploration explore() {
    Level level;
    level.add({World(scenario_), -1, 0, 1, ""});
    while (!level.nodes().empty() && result_.violation.empty()) {
      Level next;
      for (const Node& node : level.nodes()) {
        expand(node, next);
        if (!result_.violation.empty()) break;
      }
      level = std::move(next);
    }
    return std::move(result_);
  }

 private:
  void expand(const Node& node, Level& next) {
    const int threads = static_cast<int>(scenario_.threads.size());
    std::optional<World> running = node.running < 0 ? std::nullopt : stepped(node, node.running);
    const bool preempts = running.has_value();
    bool moved = preempts;
    if (running) add(node, std::move(*running), node.running, node.preemptions, next);
    for (int thread = 0; thread < threads; ++thread) {
      if (thread == node.running || (preempts && node.preemptions == most_)) continue;
      std::optional<World> world = stepped(node, thread);
      if (!world) continue;
      moved = true;
      add(node, std::move(*world), thread, node.preemptions + preempts, next);
    }
    if (moved || !result_.violation.empty()) return;
    result_.schedules += node.schedules;
    World end = node.world;
    end.expect_end();
    if (!end.violation().empty()) report(end.violation(), node.schedule);
  }

  static std::optional<World> stepped(const Node& node, int thread) {
    std::optional<World> world(node.world);
    if (!world->step(thread)) world.reset();
    return world;
  }

  void add(const Node& from, World world, int running, int preemptions, Level& next) {
    std::string schedule = from.schedule + static_cast<char>('0' + running);
    if (!world.violation().empty()) return report(world.violation(), schedule);
    if (most_ == kAnyNumber) running = -1, preemptions = 0;
    result_.states += next.add({std::move(world), running, preemptions, from.schedules, std::move(schedule)});
  }

  void report(const std::string& violation, const std::string& schedule) {
    if (!result_.violation.empty()) return;
    result_.violation = violation;
    World world(scenario_);
    for (const char digit : schedule) {
      const int thread = digit - '0';
      result_.trace.push_back(scenario_.threads[static_cast<std::size_t>(thread)].name + ": " + world.next_of(thread));
      world.step(thread);
    }
  }

  const Scenario& scenario_;
  const int most_;
  Exploration result_;
};

}  // namespace

Exploration explore(const Scenario& scenario, int preemptions) { return Explorer(scenario, preemptions).explore(); }

}  // namespace l2l::eps::model

#include "tests/compiler/remat/dtr/naive.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

namespace naive {
namespace {

using l2l::compiler::remat::dtr::Instruction;
using l2l::compiler::remat::dtr::Program;

struct Failed {
  std::string why;
};

struct Tensor {
  int op, storage;
  std::vector<int> parents, siblings;  // siblings without itself, in their order
  std::int64_t bytes;
  bool alias;
  bool defined = false;
  int references = 1;
};

struct Storage {
  std::int64_t size;
  std::vector<int> tensors;
  bool born = false, material = false, pinned = false, banished = false;
  int locks = 0, references = 0;
  std::int64_t last_access = 0;
};

class Machine {
 public:
  explicit Machine(const Setting& setting) : setting_(setting) {}

  Course run(const Program& program) {
    try {
      for (const Instruction& instruction : program) take(instruction);
      for (const std::string& name : order_) {
        if (tensor_[of_[name]].references > 0) pin_tensor(of_[name]);
      }
    } catch (const Failed& failed) {
      course_.failure = failed.why;
    }
    course_.clock = clock_;
    return course_;
  }

 private:
  // The program.

  void take(const Instruction& i) {
    if (i.kind == Instruction::constant) {
      bind(i.name, compute({}, 0, i.sizes, {-1}).front());
      pin_tensor(of_[i.name]);
    } else if (i.kind == Instruction::call) {
      const std::vector<int> results = compute(tensors_of(i.args), i.time, i.sizes, i.aliases);
      for (std::size_t r = 0; r < results.size(); ++r) bind(i.results[r], results[r]);
    } else if (i.kind == Instruction::mutate) {
      std::vector<std::int64_t> sizes;
      for (const int m : i.mutated) sizes.push_back(storage_[tensor_[of_[i.args[m]]].storage].size);
      const std::vector<int> fresh = compute(tensors_of(i.args), i.time, sizes, std::vector<int>(sizes.size(), -1));
      for (std::size_t m = 0; m < fresh.size(); ++m) {
        release(of_[i.args[i.mutated[m]]]);
        of_[i.args[i.mutated[m]]] = fresh[m];
      }
    } else if (i.kind == Instruction::copy) {
      get(of_[i.source]);
      bind(i.destination, of_[i.source]);
    } else if (i.kind == Instruction::copy_from) {
      const int old = of_[i.destination];
      get(of_[i.source]);
      release(old);
      of_[i.destination] = of_[i.source];
    } else {
      release(of_[i.name]);
    }
  }

  std::vector<int> tensors_of(const std::vector<std::string>& names) {
    std::vector<int> tensors;
    for (const std::string& name : names) tensors.push_back(of_.at(name));
    return tensors;
  }

  void bind(const std::string& name, int tensor) {
    of_[name] = tensor;
    order_.push_back(name);
  }

  // The runtime.

  std::vector<int> compute(const std::vector<int>& parents, std::int64_t time, const std::vector<std::int64_t>& sizes,
                           const std::vector<int>& aliases) {
    const int op = static_cast<int>(time_.size());
    time_.push_back(time);
    std::vector<int> made;
    for (std::size_t i = 0; i < sizes.size(); ++i) made.push_back(static_cast<int>(tensor_.size() + i));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const bool alias = aliases[i] >= 0;
      if (!alias) storage_.push_back({sizes[i], {}});
      const int storage = alias ? tensor_[parents[aliases[i]]].storage : static_cast<int>(storage_.size()) - 1;
      std::vector<int> siblings = made;
      siblings.erase(siblings.begin() + static_cast<std::ptrdiff_t>(i));
      tensor_.push_back({op, storage, parents, siblings, alias ? 0 : sizes[i], alias});
      storage_[storage].tensors.push_back(made[i]);
      ++storage_[storage].references;
    }
    materialize(made.front(), false);
    for (const int t : made) storage_[tensor_[t].storage].last_access = clock_;
    return made;
  }

  void materialize(int t, bool again) {
    const std::vector<int> parents = tensor_[t].parents;
    std::vector<int> missing;
    for (const int p : parents) storage_[tensor_[p].storage].last_access = clock_;
    for (const int p : parents) {
      if (tensor_[p].defined) {
        lock(tensor_[p].storage);
      } else {
        missing.push_back(p);
      }
    }
    for (const int p : missing) {
      if (!tensor_[p].defined) materialize(p, true);
      lock(tensor_[p].storage);
    }
    std::vector<int> outputs = tensor_[t].siblings;
    outputs.push_back(t);
    std::int64_t bytes = 0;
    for (const int o : outputs) bytes += tensor_[o].bytes;
    while (setting_.budget > 0 && memory_ + bytes > setting_.budget) {
      if (pool_.empty()) throw Failed{"out of memory"};
      evict(choose(), "evict ");
    }
    const std::int64_t time = time_[tensor_[t].op];
    clock_ += time;
    memory_ += bytes;
    course_.peak = std::max(course_.peak, memory_);
    say(again ? "again " : "run ", tensor_[t].op);
    for (const int o : outputs) {
      Storage& s = storage_[tensor_[o].storage];
      if (tensor_[o].defined || s.banished) {
        memory_ -= tensor_[o].bytes;
        continue;
      }
      tensor_[o].defined = true;
      if (s.material) continue;
      if (s.born) leave_class(tensor_[o].storage);
      s.born = s.material = true;
      pool_.push_back(tensor_[o].storage);
    }
    for (const int p : parents) {
      if (--storage_[tensor_[p].storage].locks == 0) pool_.push_back(tensor_[p].storage);
    }
    if (setting_.unreferenced == Unreferenced::banish) banish_what_can_be();
    if (again) repeated_ += time;
    if (repeated_ > setting_.repeated_limit) throw Failed{"thrashing"};
  }

  void lock(int s) {
    if (storage_[s].locks++ == 0) pool_.erase(std::find(pool_.begin(), pool_.end(), s));
  }

  void drop(int s) {
    storage_[s].material = false;
    memory_ -= storage_[s].size;
    for (const int t : storage_[s].tensors) tensor_[t].defined = false;
  }

  void evict(int s, const char* why) {
    pool_.erase(std::find(pool_.begin(), pool_.end(), s));
    drop(s);
    say(why, s);
    join_classes(s);
  }

  void get(int t) {
    ++tensor_[t].references;
    ++storage_[tensor_[t].storage].references;
  }

  void release(int t) {
    --tensor_[t].references;
    Storage& s = storage_[tensor_[t].storage];
    if (--s.references > 0) return;
    if (setting_.unreferenced == Unreferenced::evict && s.material && !s.pinned) evict(tensor_[t].storage, "release ");
    if (setting_.unreferenced == Unreferenced::banish) banish_what_can_be();
  }

  void pin_tensor(int t) {
    if (!tensor_[t].defined) materialize(t, true);
    pin(tensor_[t].storage);
  }

  void pin(int s) {
    if (storage_[s].pinned) return;
    lock(s);
    storage_[s].pinned = true;
    say("pin ", s);
  }

  // Until nothing changes, which storage comes first makes no difference.
  void banish_what_can_be() {
    for (bool again = true; again;) {
      again = false;
      for (std::size_t s = 0; s < storage_.size(); ++s) {
        if (!can_be_banished(static_cast<int>(s))) continue;
        banish(static_cast<int>(s));
        again = true;
      }
    }
  }

  bool can_be_banished(int s) const {
    const Storage& storage = storage_[s];
    if (!storage.born || storage.banished || storage.references > 0) return false;
    if (storage.locks > (storage.pinned ? 1 : 0)) return false;
    const std::vector<int> children = children_of(s);
    return std::all_of(children.begin(), children.end(), [&](int c) {
      return tensor_[c].defined || tensor_[c].storage == s || storage_[tensor_[c].storage].banished;
    });
  }

  void banish(int s) {
    Storage& storage = storage_[s];
    storage.banished = true;
    if (storage.material) {
      if (storage.locks == 0) pool_.erase(std::find(pool_.begin(), pool_.end(), s));
      drop(s);
      say("banish ", s);
    } else {
      leave_class(s);
    }
    for (const int c : children_of(s)) {
      if (storage_[tensor_[c].storage].material) pin(tensor_[c].storage);
    }
  }

  // The graph.

  std::vector<int> parents_of(int s) const {
    std::vector<int> parents;
    for (const int t : storage_[s].tensors) {
      parents.insert(parents.end(), tensor_[t].parents.begin(), tensor_[t].parents.end());
    }
    return parents;
  }

  std::vector<int> children_of(int s) const {
    std::vector<int> children;
    for (std::size_t c = 0; c < tensor_.size(); ++c) {
      for (const int p : tensor_[c].parents) {
        if (tensor_[p].storage == s) children.push_back(static_cast<int>(c));
      }
    }
    return children;
  }

  bool evicted(int s) const { return storage_[s].born && !storage_[s].material && !storage_[s].banished; }

  std::set<int> evicted_of(const std::vector<int>& tensors, int but) const {
    std::set<int> found;
    for (const int t : tensors) {
      if (tensor_[t].storage != but && evicted(tensor_[t].storage)) found.insert(tensor_[t].storage);
    }
    return found;
  }

  void closure(int s, bool up, int from, std::set<int>& found) const {
    for (const int next : evicted_of(up ? parents_of(s) : children_of(s), from)) {
      if (found.insert(next).second) closure(next, up, from, found);
    }
  }

  std::int64_t cost(int s) const {
    std::set<int> ops;
    for (const int t : storage_[s].tensors) ops.insert(tensor_[t].op);
    std::int64_t sum = 0;
    for (const int op : ops) sum += time_[op];
    return sum;
  }

  // Classes, each with the number of its first storage: all labels are written anew when two join.

  std::set<int> evicted_neighbours(int s) const {
    std::set<int> found = evicted_of(parents_of(s), s);
    found.merge(evicted_of(children_of(s), s));
    return found;
  }

  void join_classes(int s) {
    const int label = labels_++;
    label_[s] = label;
    class_cost_[label] = cost(s);
    for (const int n : evicted_neighbours(s)) {
      const int other = label_.at(n);
      if (other == label) continue;
      class_cost_[label] += class_cost_.at(other);
      for (auto& [storage, l] : label_) {
        if (l == other) l = label;
      }
    }
  }

  void leave_class(int s) {
    class_cost_.at(label_.at(s)) -= cost(s);
    label_.erase(s);
  }

  // Scores.

  std::int64_t numerator(int s) const {
    std::set<int> others;
    std::int64_t sum = cost(s);
    if (setting_.heuristic == Heuristic::dtr_eq) {
      for (const int n : evicted_neighbours(s)) others.insert(label_.at(n));
      for (const int label : others) sum += class_cost_.at(label);
      return sum;
    }
    std::set<int> descendants;
    if (setting_.heuristic == Heuristic::dtr) closure(s, false, s, descendants);
    if (setting_.heuristic != Heuristic::local) closure(s, true, s, others);
    others.merge(descendants);
    for (const int other : others) sum += cost(other);
    return sum;
  }

  double score(int s) const {
    const Storage& storage = storage_[s];
    if (setting_.heuristic == Heuristic::lru) return static_cast<double>(storage.last_access);
    const bool stale = setting_.heuristic != Heuristic::size && setting_.heuristic != Heuristic::msps;
    const std::int64_t below = storage.size * (stale ? clock_ - storage.last_access : 1);
    if (below <= 0) return std::numeric_limits<double>::infinity();
    const std::int64_t above = setting_.heuristic == Heuristic::size ? 1 : numerator(s);
    return static_cast<double>(above) / static_cast<double>(below);
  }

  int choose() const {
    double least = std::numeric_limits<double>::infinity();
    int found = -1;
    for (const int s : pool_) {
      const double found_score = score(s);
      if (found_score <= least) {
        least = found_score;
        found = s;
      }
      if (found_score == 0) break;
    }
    return found;
  }

  void say(const char* what, int index) { course_.events.push_back(what + std::to_string(index)); }

  const Setting setting_;
  Course course_;
  std::map<std::string, int> of_;  // the tensor that a name stands for
  std::vector<std::string> order_;
  std::vector<std::int64_t> time_;  // of ops
  std::vector<Tensor> tensor_;
  std::vector<Storage> storage_;
  std::vector<int> pool_;
  std::map<int, int> label_;  // of evicted storages
  std::map<int, std::int64_t> class_cost_;
  int labels_ = 0;
  std::int64_t clock_ = 1, memory_ = 0, repeated_ = 0;
};

}  // namespace

Course run(const Program& program, const Setting& setting) { return Machine(setting).run(program); }

}  // namespace naive

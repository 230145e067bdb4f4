#include "compiler/remat/stage.h"

#include <algorithm>
#include <optional>

#include "compiler/ir/drop_unused.h"
#include "compiler/remat/dtr/rematerializer.h"
#include "l2l/errors.h"

namespace l2l::compiler::remat {
namespace {

constexpr std::size_t kBudgets = 24;  // tried per heuristic

bool in_scratch(const Graph& graph, ValueId id) { return graph.value(id).region == Region::scratch; }

// Whether running the op again would change more than scratch.
bool has_effect(const Graph& graph, const Op& op) {
  return std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId id) { return !in_scratch(graph, id); });
}

// Writes down the rematerializer's actions as a graph.
class Writer final : public dtr::Callbacks {
 public:
  // `value_of`: the value of each tensor; kNothing for a tensor that stands for an op without outputs in scratch.
  Writer(const Graph& graph, const std::vector<ValueId>& value_of)
      : graph_(graph), value_of_(value_of), written_{graph.name, graph.values, {}}, now_(graph.values.size()) {
    for (std::size_t i = 0; i < now_.size(); ++i) now_[i] = static_cast<ValueId>(i);
  }

  void allocate_buffer(dtr::Index tensor, bool spare) override {
    if (spare) spare_.push_back(value_of_[tensor]);
  }

  void perform_op(dtr::Index op, bool again) override {
    Op written = graph_.ops[op];
    for (ValueId& id : written.inputs) id = now_[static_cast<std::size_t>(id)];
    if (again) {
      for (ValueId& id : written.outputs) id = renewed(id);
    }
    written_.ops.push_back(std::move(written));
    spare_.clear();
  }

  Graph finish() {
    drop_unused(written_, Unused::scratch);
    written_.validate();
    return std::move(written_);
  }

  static constexpr ValueId kNothing = -1;

 private:
  // A new value for a recomputed output. A spare copy of an output that is still in memory is read by nobody.
  ValueId renewed(ValueId id) {
    written_.values.push_back(graph_.value(id));
    const auto fresh = static_cast<ValueId>(written_.values.size() - 1);
    if (std::find(spare_.begin(), spare_.end(), id) == spare_.end()) now_[static_cast<std::size_t>(id)] = fresh;
    return fresh;
  }

  const Graph& graph_;
  const std::vector<ValueId>& value_of_;
  Graph written_;
  std::vector<ValueId> now_;  // per value of the graph: the value that currently holds it
  std::vector<ValueId> spare_;
};

// The graph as a program for the rematerializer. Its tensors are the values in scratch; all others are always in
// memory.
class Trace {
 public:
  explicit Trace(const StageProblem& problem)
      : graph_(problem.graph), tensor_of_(graph_.values.size(), dtr::kNone), last_reader_(graph_.values.size(), 0) {
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      for (const ValueId id : graph_.ops[i].inputs) last_reader_[static_cast<std::size_t>(id)] = i;
    }
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) add(graph_.ops[i], problem.times[i]);
  }

  struct Result {
    Graph graph;
    Nanoseconds time;
    Bytes peak;
  };
  // Nothing when the budget is too small.
  std::optional<Result> run(const dtr::Options& options) const {
    Writer writer(graph_, value_of_);
    dtr::Rematerializer core(options, writer);
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (!core.run(ops_[i]) || !pin(core, i)) return std::nullopt;
      release(core, i);
    }
    return Result{writer.finish(), static_cast<Nanoseconds>(core.clock() - 1), core.peak()};
  }

 private:
  void add(const Op& op, Nanoseconds time) {
    dtr::Op added{.time = static_cast<dtr::Time>(time), .args = {}, .outputs = {}};
    for (const ValueId id : op.inputs) {
      if (in_scratch(graph_, id)) added.args.push_back(tensor_of_[static_cast<std::size_t>(id)]);
    }
    for (const ValueId id : op.outputs) {
      if (!in_scratch(graph_, id)) continue;
      tensor_of_[static_cast<std::size_t>(id)] = static_cast<dtr::Index>(value_of_.size());
      value_of_.push_back(id);
      added.outputs.push_back({.bytes = graph_.value(id).bytes()});
    }
    if (added.outputs.empty()) {
      added.outputs.push_back({});
      value_of_.push_back(Writer::kNothing);
    }
    ops_.push_back(std::move(added));
  }

  // The outputs of an op that must not run again are never evicted.
  bool pin(dtr::Rematerializer& core, std::size_t index) const {
    if (!has_effect(graph_, graph_.ops[index])) return true;
    for (const ValueId id : graph_.ops[index].outputs) {
      if (in_scratch(graph_, id) && !core.pin(tensor_of_[static_cast<std::size_t>(id)])) return false;
    }
    return true;
  }

  // Drops the values whose last reader is this op, and its outputs that nobody reads.
  void release(dtr::Rematerializer& core, std::size_t index) const {
    const Op& op = graph_.ops[index];
    std::vector<ValueId> done;
    for (const std::vector<ValueId>* ids : {&op.inputs, &op.outputs}) {
      for (const ValueId id : *ids) {
        const bool last = last_reader_[static_cast<std::size_t>(id)] <= index;
        if (last && in_scratch(graph_, id) && std::find(done.begin(), done.end(), id) == done.end()) done.push_back(id);
      }
    }
    for (const ValueId id : done) core.release(tensor_of_[static_cast<std::size_t>(id)]);
  }

  const Graph& graph_;
  std::vector<dtr::Index> tensor_of_;
  std::vector<std::size_t> last_reader_;
  std::vector<dtr::Op> ops_;
  std::vector<ValueId> value_of_;
};

// The Pareto front, ascending in scratch.
std::vector<StagedProgram> pareto_front(std::vector<StagedProgram> programs) {
  std::stable_sort(programs.begin(), programs.end(), [](const StagedProgram& a, const StagedProgram& b) {
    return a.scratch != b.scratch ? a.scratch < b.scratch : a.time < b.time;
  });
  std::vector<StagedProgram> kept;
  for (StagedProgram& program : programs) {
    if (kept.empty() || program.time < kept.back().time) kept.push_back(std::move(program));
  }
  return kept;
}

}  // namespace

std::vector<StagedProgram> stage(const StageProblem& problem) {
  const Trace trace(problem);
  std::vector<StagedProgram> programs;
  Nanoseconds time = 0;
  for (const Nanoseconds each : problem.times) time += each;
  programs.push_back({problem.graph, time, problem.scratch_of(problem.graph), "in order"});
  const Bytes most = trace.run({})->peak;
  for (std::size_t score = 0; score < dtr::score_names().size(); ++score) {
    Graph last = problem.graph;
    for (std::size_t i = kBudgets; i-- > 1;) {
      const dtr::Options options{
          .budget = most * i / kBudgets, .heuristic = static_cast<dtr::Score>(score), .shortcuts = {}};
      std::optional<Trace::Result> result = trace.run(options);
      if (!result) break;
      if (result->graph == last) continue;
      last = std::move(result->graph);
      const Bytes scratch = problem.scratch_of(last);
      programs.push_back(
          {last, result->time, scratch, dtr::score_names()[score] + ", " + format_bytes(options.budget)});
    }
  }
  return pareto_front(std::move(programs));
}

const StagedProgram& fastest_within(const std::vector<StagedProgram>& programs, Bytes budget) {
  const StagedProgram* best = nullptr;
  for (const StagedProgram& program : programs) {
    if (program.scratch <= budget) best = &program;
  }
  if (best != nullptr) return *best;
  const Bytes least = programs.front().scratch;
  throw OutOfMemory(programs.front().graph.name + ": recompute.budget is " + format_bytes(budget) + " (" +
                    std::to_string(budget) + " bytes), the smallest program needs " + format_bytes(least) + " (" +
                    std::to_string(least) + " bytes), " + format_bytes(least - budget) + " more");
}

}  // namespace l2l::compiler::remat

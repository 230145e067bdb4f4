#include "compiler/remat/min_cut.h"

#include <string>

#include "compiler/memory/flow.h"
#include "core/checked.h"
#include "l2l/errors.h"

namespace l2l::compiler::remat {
namespace {

using memory::Flow;
constexpr Flow::Amount kInfinite = ~Flow::Amount{0} / 2;

void refuse(ValueIndex value, const std::string& what) {
  throw BadInput("recompute: value " + std::to_string(value) + " " + what);
}

// Also that all bytes together stay below an infinite edge, and that keeping all that may be kept is enough.
void check(const CutProblem& problem) {
  Bytes all = 0;
  for (const CutValue& value : problem.values) all = checked_add(all, value.bytes, "bytes of all values");
  if (all >= kInfinite) throw BadInput("recompute: values of " + std::to_string(all) + " bytes are too many");
  std::vector<bool> written(problem.values.size(), false), read(problem.values.size(), false), there;
  for (const CutValue& value : problem.values) there.push_back(value.given || value.keepable);
  for (const CutOp& op : problem.ops) {
    bool runs = !op.banned;
    for (const ValueIndex v : op.inputs) {
      if (v >= problem.values.size()) refuse(v, "does not exist, but an op reads it");
      read[v] = true;
      runs = runs && there[v];
    }
    for (const ValueIndex v : op.outputs) {
      if (v >= problem.values.size()) refuse(v, "does not exist, but an op writes it");
      if (written[v]) refuse(v, "is written by two ops");
      if (read[v]) refuse(v, "is read before the op that writes it");
      written[v] = true;
      there[v] = there[v] || runs;
    }
  }
  for (ValueIndex v = 0; v < problem.values.size(); ++v) {
    if (problem.values[v].needed && !there[v]) refuse(v, "is needed, but can be neither kept nor recomputed");
  }
}

// Flow comes from values that cannot be recomputed, passes ops freely and a value at the price of its bytes, and ends
// in values that the backward pass reads. All edges are reversed, so that Flow::reaches() gives the smallest sink side
// of any minimum cut.
class Network {
 public:
  explicit Network(const CutProblem& problem)
      : problem_(problem),
        source_(static_cast<Flow::Node>(2 * problem.values.size() + problem.ops.size())),
        flow_(source_ + std::size_t{2}) {
    std::vector<bool> lost(problem.values.size(), true);  // unless kept
    for (std::size_t o = 0; o < problem.ops.size(); ++o) {
      if (!problem.ops[o].banned) add_op(o, lost);
    }
    for (ValueIndex v = 0; v < problem.values.size(); ++v) {
      const CutValue& value = problem.values[v];
      add(in(v), out(v), value.keepable ? value.bytes : kInfinite);
      if (value.needed) add(out(v), source_ + 1, kInfinite);
      if (lost[v] && !value.given) add(source_, in(v), kInfinite);
    }
  }

  std::vector<ValueIndex> cut() {
    flow_.run(source_ + 1, source_);
    std::vector<ValueIndex> keep;
    for (ValueIndex v = 0; v < problem_.values.size(); ++v) {
      if (!problem_.values[v].given && flow_.reaches(out(v)) && !flow_.reaches(in(v))) keep.push_back(v);
    }
    return keep;
  }

 private:
  static Flow::Node in(ValueIndex v) { return 2 * v; }
  static Flow::Node out(ValueIndex v) { return 2 * v + 1; }
  void add(Flow::Node from, Flow::Node to, Flow::Amount amount) { flow_.add_edge(to, from, amount); }

  void add_op(std::size_t o, std::vector<bool>& lost) {
    const auto node = static_cast<Flow::Node>(2 * problem_.values.size() + o);
    for (const ValueIndex v : problem_.ops[o].inputs) {
      if (!problem_.values[v].given) add(out(v), node, kInfinite);
    }
    for (const ValueIndex v : problem_.ops[o].outputs) {
      if (!problem_.values[v].given) add(node, in(v), kInfinite);
      lost[v] = false;
    }
  }

  const CutProblem& problem_;
  const Flow::Node source_;  // the sink is the node after it
  Flow flow_;
};

}  // namespace

std::vector<ValueIndex> min_cut(const CutProblem& problem) {
  check(problem);
  return Network(problem).cut();
}

}  // namespace l2l::compiler::remat

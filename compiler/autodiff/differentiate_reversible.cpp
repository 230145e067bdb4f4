#include "compiler/autodiff/differentiate.h"

#include <algorithm>
#include <span>

#include "compiler/autodiff/backward.h"
#include "compiler/ir/op_check.h"
#include "l2l/errors.h"

namespace l2l::compiler {
namespace {

// A branch: its ops, and those behind them that add its results to streams, or begin streams with them.
struct Branch {
  std::span<const Op> ops, ends;
};

bool ends_branch(const Op& op) { return op.kind == OpKind::reversible_add || op.kind == OpKind::split_streams; }

// Whether what `end` adds, or begins a stream with, is one of these streams.
bool reads_any(const Op& end, std::span<const Op> ends) {
  return std::ranges::any_of(ends, [&](const Op& before) { return before.outputs[0] == end.inputs.back(); });
}

std::vector<Branch> branches_of(const Graph& forward) {
  const std::span<const Op> all = forward.ops;
  std::vector<Branch> branches;
  std::size_t begin = 0;
  for (std::size_t end = 0; end < all.size(); begin = end) {
    while (end < all.size() && !ends_branch(all[end])) ++end;
    const std::size_t first = end;
    const auto before = [&] { return all.subspan(first, end - first); };
    while (end < all.size() && ends_branch(all[end]) && !reads_any(all[end], before())) ++end;
    if (end == first) break;
    branches.push_back({all.subspan(begin, first - begin), before()});
  }
  if (begin < all.size()) {
    throw BadInput(forward.name + ": " + std::string(name_of(all[begin].kind)) +
                   " stands behind the last sum of a reversible layer, whose results are sums");
  }
  if (branches.empty()) throw BadInput(forward.name + ": a reversible layer adds nothing to its streams");
  return branches;
}

// Undoes branches, from the last to the first.
class Reversal {
 public:
  explicit Reversal(const Graph& forward) : forward_(forward), backward_(forward), known_(forward.values.size()) {
    for (std::size_t i = 0; i < known_.size(); ++i) {
      const Region region = forward.values[i].region;
      known_[i] = region != Region::scratch && region != Region::input;
    }
  }

  void undo(const Branch& branch) {
    for (const Op& op : branch.ops) run_again(op);
    for (auto end = branch.ends.rbegin(); end != branch.ends.rend(); ++end) {
      if (end->kind == OpKind::reversible_add) undo_addition(*end);
    }
    for (const std::span<const Op> part : {branch.ends, branch.ops}) {
      for (auto op = part.rbegin(); op != part.rend(); ++op) backward_.differentiate(*op);
    }
  }

  Graph finish() {
    backward_.exchange_ends();
    return backward_.finish();
  }

 private:
  void run_again(const Op& op) {
    for (const ValueId id : op.inputs) require(op, id);
    backward_.append(op.kind, op.inputs, op.outputs, op.attributes);
    for (const ValueId id : op.outputs) know(id);
  }

  // x + b -> sum becomes sum - b -> x.
  void undo_addition(const Op& op) {
    const ValueId x = op.inputs[0], b = op.inputs[1], sum = op.outputs[0];
    if (known_[static_cast<std::size_t>(x)]) return;  // a result of the layer, or the sum of another branch, too
    require(op, sum);
    require(op, b);
    Attributes attributes = op.attributes;
    attributes.inverse = true;
    backward_.append(OpKind::reversible_add, {sum, b}, {x}, attributes);
    know(x);
  }

  void know(ValueId id) { known_[static_cast<std::size_t>(id)] = true; }
  void require(const Op& op, ValueId id) const {
    if (known_[static_cast<std::size_t>(id)]) return;
    throw BadInput(forward_.name + ": " + std::string(name_of(op.kind)) + " of a branch needs " +
                   describe(forward_.value(id)) +
                   ", which is not rebuilt by then: a branch may read the streams that " +
                   "later branches read or add to, but not the one that it is added to");
  }

  const Graph& forward_;
  Backward backward_;
  std::vector<bool> known_;  // per forward value: available to the following ops
};

}  // namespace

Graph differentiate_reversible(const Graph& forward) {
  forward.validate();
  const std::vector<Branch> branches = branches_of(forward);
  Reversal reversal(forward);
  for (auto branch = branches.rbegin(); branch != branches.rend(); ++branch) reversal.undo(*branch);
  return reversal.finish();
}

}  // namespace l2l::compiler

#include "compiler/autodiff/differentiate.h"

#include <span>

#include "compiler/autodiff/backward.h"
#include "compiler/ir/op_check.h"
#include "l2l/errors.h"

namespace l2l::compiler {
namespace {

// A branch: its ops, and the reversible_add() that adds its result to a stream.
using Branch = std::span<const Op>;

std::vector<Branch> branches_of(const Graph& forward) {
  std::vector<Branch> branches;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < forward.ops.size(); ++i) {
    if (forward.ops[i].kind != OpKind::reversible_add) continue;
    branches.push_back(std::span(forward.ops).subspan(begin, i + 1 - begin));
    begin = i + 1;
  }
  if (begin < forward.ops.size() || branches.empty()) {
    throw BadInput(forward.name + ": the last op of a reversible layer couples a branch to a stream");
  }
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

  void undo(Branch branch) {
    for (const Op& op : branch.first(branch.size() - 1)) run_again(op);
    undo_addition(branch.back());
    for (auto op = branch.rbegin(); op != branch.rend(); ++op) backward_.differentiate(*op);
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

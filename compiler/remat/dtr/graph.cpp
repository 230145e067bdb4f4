#include "compiler/remat/dtr/graph.h"

#include <string>

#include "l2l/errors.h"

namespace l2l::compiler::remat::dtr {
namespace {

// Ops are appended in order, so one that is there already is the last.
bool append_once(std::vector<Index>& ops, Index op) {
  if (!ops.empty() && ops.back() == op) return false;
  ops.push_back(op);
  return true;
}

}  // namespace

void Graph::check(const Op& op) const {
  const std::string where = "op " + std::to_string(ops_.size()) + ": ";
  if (op.outputs.empty()) throw BadInput(where + "has no output");
  if (op.time < 0) throw BadInput(where + "takes less than no time");
  for (const Index arg : op.args) {
    if (arg >= tensors_.size()) throw BadInput(where + "tensor " + std::to_string(arg) + " is not there yet");
  }
  for (const Output& output : op.outputs) {
    if (output.alias != kNone && output.alias >= op.args.size()) {
      throw BadInput(where + "an output is an alias of argument " + std::to_string(output.alias) + " of " +
                     std::to_string(op.args.size()));
    }
  }
}

Index Graph::storage_of(const Op& op, const Output& output) {
  if (output.alias != kNone) return tensors_[op.args[output.alias]].storage;
  storages_.push_back({output.bytes, 0, {}, {}, {}});
  return static_cast<Index>(storages_.size() - 1);
}

Index Graph::add(const Op& op) {
  check(op);
  const auto index = static_cast<Index>(ops_.size()), first = static_cast<Index>(tensors_.size());
  Node node{op.time, 0, first, static_cast<Index>(first + op.outputs.size()), op.args, {}, {}};
  for (const Index arg : op.args) {
    node.reads.push_back(tensors_[arg].storage);
    append_once(storages_[node.reads.back()].users, index);
  }
  for (const Output& output : op.outputs) {
    const Index storage = storage_of(op, output);
    const Bytes bytes = output.alias == kNone ? output.bytes : 0;
    node.bytes += bytes;
    node.writes.push_back(storage);
    storages_[storage].tensors.push_back(static_cast<Index>(tensors_.size()));
    if (append_once(storages_[storage].makers, index)) storages_[storage].cost += op.time;
    tensors_.push_back({index, storage, bytes});
  }
  ops_.push_back(std::move(node));
  return index;
}

}  // namespace l2l::compiler::remat::dtr

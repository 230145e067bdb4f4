#include "compiler/fusion/fuse.h"

#include <algorithm>
#include <optional>

#include "compiler/ir/drop_unused.h"

namespace l2l::compiler {
namespace {

std::optional<std::size_t> maker_of(const Graph& graph, ValueId id) {
  const Op* const maker = graph.producer(id);
  if (maker == nullptr) return std::nullopt;
  return static_cast<std::size_t>(maker - graph.ops.data());
}

// The op that makes `id`, if it is of `kind`.
std::optional<std::size_t> maker_of(const Graph& graph, ValueId id, OpKind kind) {
  const std::optional<std::size_t> maker = maker_of(graph, id);
  return maker && graph.ops[*maker].kind == kind ? maker : std::nullopt;
}

std::ptrdiff_t reads_of(const Graph& graph, ValueId id) {
  std::ptrdiff_t reads = 0;
  for (const Op& op : graph.ops) reads += std::count(op.inputs.begin(), op.inputs.end(), id);
  return reads;
}

bool in_scratch(const Graph& graph, ValueId id) { return graph.value(id).region == Region::scratch; }

// Whether the value has a single use, so that it need not be stored.
bool read_once(const Graph& graph, ValueId id) { return in_scratch(graph, id) && reads_of(graph, id) == 1; }

// Whether no op changes the value after it is made.
bool constant(const Graph& graph, ValueId id) {
  const Region region = graph.value(id).region;
  return region != Region::gradients && region != Region::normed && region != Region::carry;
}

bool all_constant(const Graph& graph, const std::vector<ValueId>& ids) {
  return std::all_of(ids.begin(), ids.end(), [&](ValueId id) { return constant(graph, id); });
}

bool same_memory(const Value& a, const Value& b) {
  return a.region == b.region && a.region != Region::scratch && a.offset < b.offset + b.bytes() &&
         b.offset < a.offset + a.bytes();
}

// Whether no op strictly between `first` and `second` accesses the accumulators that `op` adds to, so that `op` may be
// moved across them.
bool untouched_between(const Graph& graph, std::size_t first, std::size_t second, const Op& op) {
  for (std::size_t i = first + 1; i < second; ++i) {
    for (const std::vector<ValueId>* ids : {&graph.ops[i].inputs, &graph.ops[i].outputs}) {
      for (const ValueId id : *ids) {
        for (const ValueId own : op.outputs) {
          if (!constant(graph, own) && same_memory(graph.value(id), graph.value(own))) return false;
        }
      }
    }
  }
  return true;
}

// Whether the results of the op at `index` may be written at the position `earlier`. A bound region may share memory
// with another one that ops in between read.
bool may_write_earlier(const Graph& graph, std::size_t index, std::size_t earlier) {
  const std::vector<ValueId>& results = graph.ops[index].outputs;
  return index == earlier + 1 ||
         std::all_of(results.begin(), results.end(), [&](ValueId id) { return in_scratch(graph, id); });
}

// Replaces op `kept` by `fused`, and removes op `dropped`.
void replace(Graph& graph, std::size_t kept, std::size_t dropped, Op fused) {
  graph.ops[kept] = std::move(fused);
  graph.ops.erase(graph.ops.begin() + static_cast<std::ptrdiff_t>(dropped));
}

// A rewrite tries to match its pattern with op `index` as the last op. Returns whether it changed the graph.
using Rewrite = bool (*)(Graph& graph, std::size_t index);

// dropout, then add -> dropout_add.
bool fuse_dropout_add(Graph& graph, std::size_t index) {
  const Op& add = graph.ops[index];
  if (add.kind != OpKind::add) return false;
  for (const std::size_t side : {0, 1}) {
    const ValueId dropped = add.inputs[side];
    const auto dropout = maker_of(graph, dropped, OpKind::dropout);
    if (!dropout || !read_once(graph, dropped) || !constant(graph, graph.ops[*dropout].inputs[0])) continue;
    Op fused{OpKind::dropout_add,
             {graph.ops[*dropout].inputs[0], add.inputs[1 - side]},
             add.outputs,
             graph.ops[*dropout].attributes};
    replace(graph, index, *dropout, std::move(fused));
    return true;
  }
  return false;
}

// add or dropout_add, then a norm -> add_layer_norm or add_rms_norm; the sum is an output if others read it.
bool fuse_add_norm(Graph& graph, std::size_t index) {
  const Op& norm = graph.ops[index];
  if (norm.kind != OpKind::layer_norm && norm.kind != OpKind::rms_norm) return false;
  const ValueId sum = norm.inputs[0];
  const auto add = maker_of(graph, sum);
  if (!add || !may_write_earlier(graph, index, *add)) return false;
  const Op& adding = graph.ops[*add];
  if (adding.kind != OpKind::add && adding.kind != OpKind::dropout_add) return false;
  Op fused{norm.kind == OpKind::layer_norm ? OpKind::add_layer_norm : OpKind::add_rms_norm, adding.inputs, norm.outputs,
           adding.attributes};
  for (std::size_t i = 1; i < norm.inputs.size(); ++i) {
    if (graph.value(norm.inputs[i]).region != Region::weights) return false;  // may not exist yet where the sum is made
    fused.inputs.push_back(norm.inputs[i]);
  }
  fused.attributes.epsilon = norm.attributes.epsilon;
  fused.attributes.unit_offset = norm.attributes.unit_offset;
  if (adding.kind == OpKind::add) fused.attributes.probability = 0;
  if (!read_once(graph, sum)) fused.outputs.push_back(sum);
  replace(graph, *add, index, std::move(fused));
  return true;
}

// The gradient of a norm, then the add of another gradient -> layer_norm_backward_add or rms_norm_backward_add.
bool fuse_norm_backward_add(Graph& graph, std::size_t index) {
  const Op& add = graph.ops[index];
  if (add.kind != OpKind::add) return false;
  for (const std::size_t side : {0, 1}) {
    const auto maker = maker_of(graph, add.inputs[side]);
    if (!maker || !read_once(graph, add.inputs[side])) continue;
    Op fused = graph.ops[*maker];
    if (fused.kind != OpKind::layer_norm_backward && fused.kind != OpKind::rms_norm_backward) continue;
    if (!all_constant(graph, fused.inputs) || !untouched_between(graph, *maker, index, fused)) continue;
    fused.kind =
        fused.kind == OpKind::layer_norm_backward ? OpKind::layer_norm_backward_add : OpKind::rms_norm_backward_add;
    fused.inputs.push_back(add.inputs[1 - side]);
    fused.outputs[0] = add.outputs[0];
    replace(graph, index, *maker, std::move(fused));
    return true;
  }
  return false;
}

// The gradient of gelu or dropout, then its sum over rows -> gelu_backward_bias or dropout_bias.
bool fuse_bias_gradient(Graph& graph, std::size_t index) {
  const Op& bias = graph.ops[index];
  if (bias.kind != OpKind::bias_gradient) return false;
  const auto maker = maker_of(graph, bias.inputs[0]);
  if (!maker) return false;
  Op fused = graph.ops[*maker];
  if (fused.kind != OpKind::gelu_backward && fused.kind != OpKind::dropout) return false;
  if (!untouched_between(graph, *maker, index, bias)) return false;
  fused.kind = fused.kind == OpKind::gelu_backward ? OpKind::gelu_backward_bias : OpKind::dropout_bias;
  fused.outputs.push_back(bias.outputs[0]);
  replace(graph, *maker, index, std::move(fused));
  return true;
}

}  // namespace

Graph fuse(const Graph& graph) {
  Graph fused = graph;
  for (const Rewrite rewrite : {fuse_bias_gradient, fuse_norm_backward_add, fuse_dropout_add, fuse_add_norm}) {
    for (std::size_t i = 0; i < fused.ops.size();) {
      if (rewrite(fused, i)) {
        i = 0;
      } else {
        ++i;
      }
    }
  }
  drop_unused(fused, Unused::scratch);
  fused.validate();
  return fused;
}

}  // namespace l2l::compiler

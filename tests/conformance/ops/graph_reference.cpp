#include "tests/conformance/ops/graph_reference.h"

#include <algorithm>
#include <stdexcept>

namespace l2l::test {
namespace {

using compiler::Graph;
using compiler::Op;
using compiler::OpKind;
using compiler::Region;
using compiler::Value;
using compiler::ValueId;

// A graph's run, op by op.
class Run {
 public:
  Run(const Graph& graph, RegionTensors& memory) : graph_(graph), memory_(memory), scratch_(graph.values.size()) {
    for (const Value& value : graph.values) {
      if (value.region == Region::scratch) continue;
      Tensor& region = memory[value.region];
      region.resize(std::max(region.size(), first_of(value) + static_cast<std::size_t>(value.shape.elements())));
    }
  }

  const Graph& graph() const { return graph_; }
  const Op& op(std::size_t index) const { return graph_.ops[index]; }

  Tensors operands_of(const Op& op) const {
    Tensors operands;
    for (const auto* const ids : {&op.inputs, &op.outputs}) {
      for (const ValueId id : *ids) operands.push_back(read(id));
    }
    return operands;
  }

  void write_outputs(const Op& op, Tensors& operands) {
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const Value& value = graph_.value(op.outputs[i]);
      Tensor& made = operands[op.inputs.size() + i];
      if (value.region == Region::scratch) {
        scratch_[static_cast<std::size_t>(op.outputs[i])] = std::move(made);
      } else {
        std::ranges::copy(made, memory_[value.region].begin() + static_cast<std::ptrdiff_t>(first_of(value)));
      }
    }
  }

 private:
  static std::size_t first_of(const Value& value) { return value.offset / size_of(value.dtype); }

  // Of scratch that is not written yet: zeros.
  Tensor read(ValueId id) const {
    const Value& value = graph_.value(id);
    const Tensor& scratch = scratch_[static_cast<std::size_t>(id)];
    const auto elements = static_cast<std::size_t>(value.shape.elements());
    if (value.region == Region::scratch) return scratch.empty() ? Tensor(elements) : scratch;
    const auto begin = memory_[value.region].begin() + static_cast<std::ptrdiff_t>(first_of(value));
    return Tensor(begin, begin + static_cast<std::ptrdiff_t>(elements));
  }

  const Graph& graph_;
  RegionTensors& memory_;
  std::vector<Tensor> scratch_;
};

// What the devices' operands of one op are.
using Shares = std::vector<Tensors>;

void gather_rows(Shares& shares) {
  Tensor all;
  for (const Tensors& share : shares) all.insert(all.end(), share[0].begin(), share[0].end());
  for (Tensors& share : shares) share[1] = all;
}

void scatter_rows(Shares& shares) {
  Tensor sum(shares[0][0].size());
  for (const Tensors& share : shares) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += share[0][i];
  }
  auto begin = sum.begin();
  for (Tensors& share : shares) {
    const auto end = begin + static_cast<std::ptrdiff_t>(share[1].size());
    share[1].assign(begin, end);
    begin = end;
  }
}

// The op of the whole table, whose rows the devices have one after the other. The gradient of x, which devices have
// parts of, is the first one's.
void split_loss(const std::vector<Run>& runs, std::size_t index, Shares& shares,
                const device::LaunchParameters& parameters) {
  const Op& first = runs[0].op(index);
  Graph graph;
  Op op = first;
  op.attributes.shard = {};
  op.attributes.first = 0;
  Tensors operands = shares[0];
  const std::size_t inputs = op.inputs.size();
  const auto is_split = [&](std::size_t operand) {
    return operand == 1 || (operand == 3 && inputs > 3) || operand > inputs + 1;
  };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const ValueId id = i < inputs ? first.inputs[i] : first.outputs[i - inputs];
    Value value = runs[0].graph().value(id);
    if (is_split(i)) {
      operands[i].clear();
      for (const Tensors& share : shares) operands[i].insert(operands[i].end(), share[i].begin(), share[i].end());
      value.shape =
          value.shape.rank() == 1 ? Shape{op.attributes.vocabulary} : Shape{op.attributes.vocabulary, value.shape[1]};
    }
    graph.values.push_back(std::move(value));
    (i < inputs ? op.inputs[i] : op.outputs[i - inputs]) = static_cast<ValueId>(i);
  }
  run_reference({graph, op, parameters, operands, /*round=*/false});
  for (std::size_t i = inputs; i < operands.size(); ++i) {
    auto begin = operands[i].begin();
    for (std::size_t device = 0; device < shares.size(); ++device) {
      Tensor& to = shares[device][i];
      if (is_split(i)) {
        std::copy_n(begin, to.size(), to.begin());
        begin += static_cast<std::ptrdiff_t>(to.size());
      } else if (i == inputs + 1 && device > 0) {
        std::ranges::fill(to, 0.0);
      } else {
        to = operands[i];
      }
    }
  }
}

bool is_loss(OpKind kind) {
  return kind == OpKind::linear_cross_entropy || kind == OpKind::linear_cross_entropy_backward;
}

}  // namespace

void run_graph(const Graph& graph, RegionTensors& memory, const device::LaunchParameters& parameters) {
  const Graph* const graphs[] = {&graph};
  run_split_graphs(graphs, std::span(&memory, 1), parameters);
}

void run_split_graphs(std::span<const Graph* const> graphs, std::span<RegionTensors> memories,
                      const device::LaunchParameters& parameters) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < graphs.size(); ++i) runs.emplace_back(*graphs[i], memories[i]);
  for (std::size_t index = 0; index < graphs[0]->ops.size(); ++index) {
    const OpKind kind = runs[0].op(index).kind;
    Shares shares;
    for (const Run& run : runs) {
      if (run.op(index).kind != kind) throw std::logic_error("devices have other ops of a layer that they share");
      shares.push_back(run.operands_of(run.op(index)));
    }
    if (kind == OpKind::all_gather_rows) {
      gather_rows(shares);
    } else if (kind == OpKind::reduce_scatter_rows) {
      scatter_rows(shares);
    } else if (runs.size() > 1 && is_loss(kind)) {
      split_loss(runs, index, shares, parameters);
    } else {
      for (std::size_t i = 0; i < runs.size(); ++i) {
        run_reference({*graphs[i], runs[i].op(index), parameters, shares[i], /*round=*/false});
      }
    }
    for (std::size_t i = 0; i < runs.size(); ++i) runs[i].write_outputs(runs[i].op(index), shares[i]);
  }
}

}  // namespace l2l::test

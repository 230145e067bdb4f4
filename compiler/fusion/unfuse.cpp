#include "compiler/fusion/unfuse.h"

#include "compiler/ir/op_check.h"
#include "l2l/errors.h"

namespace l2l::compiler {
namespace {

class Unfusing {
 public:
  Unfusing(const Graph& graph, const Op& op) : op_(op) {
    graph_.name = graph.name + ", " + std::string(name_of(op.kind));
    for (const std::vector<ValueId>* ids : {&op.inputs, &op.outputs}) {
      for (const ValueId id : *ids) {
        Value value = graph.value(id);
        value.region = Region::scratch;
        value.offset = 0;
        graph_.values.push_back(std::move(value));
      }
    }
  }

  ValueId in(std::size_t i) const { return static_cast<ValueId>(i); }
  // Output `i`, or kNone for an optional one that is left out.
  ValueId out(std::size_t i) const {
    return i < op_.outputs.size() ? static_cast<ValueId>(op_.inputs.size() + i) : kNone;
  }

  // Outputs from `i` on, as many as there are.
  std::vector<ValueId> out_from(std::size_t i) const {
    std::vector<ValueId> rest;
    for (; i < op_.outputs.size(); ++i) rest.push_back(out(i));
    return rest;
  }

  // Appends an op of the fused op's attributes. Its first output is `first`, or a new value for kNone; `rest` follow.
  ValueId append(OpKind kind, std::vector<ValueId> inputs, ValueId first, std::vector<ValueId> rest = {}) {
    Op op{kind, std::move(inputs), {}, op_.attributes};
    if (first == kNone) first = intermediate(op);
    op.outputs = {first};
    op.outputs.insert(op.outputs.end(), rest.begin(), rest.end());
    graph_.ops.push_back(std::move(op));
    return first;
  }

  float probability() const { return op_.attributes.probability; }

  Graph take() { return std::move(graph_); }

  static constexpr ValueId kNone = -1;

 private:
  ValueId intermediate(const Op& op) {
    graph_.values.push_back(infer_outputs(graph_, op, graph_.ops.size()).front());
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  const Op& op_;
  Graph graph_;
};

constexpr ValueId kNew = Unfusing::kNone;

void dropout_add(Unfusing& parts) {
  const ValueId dropped = parts.append(OpKind::dropout, {parts.in(0)}, kNew);
  parts.append(OpKind::add, {dropped, parts.in(1)}, parts.out(0));
}

ValueId residual_sum(Unfusing& parts, ValueId sum) {
  const ValueId x = parts.probability() > 0 ? parts.append(OpKind::dropout, {parts.in(0)}, kNew) : parts.in(0);
  return parts.append(OpKind::add, {x, parts.in(1)}, sum);
}

void add_layer_norm(Unfusing& parts) {
  const ValueId sum = residual_sum(parts, parts.out(3));
  parts.append(OpKind::layer_norm, {sum, parts.in(2), parts.in(3)}, parts.out(0), {parts.out(1), parts.out(2)});
}

void add_rms_norm(Unfusing& parts) {
  const ValueId sum = residual_sum(parts, parts.out(2));
  parts.append(OpKind::rms_norm, {sum, parts.in(2)}, parts.out(0), {parts.out(1)});
}

void layer_norm_backward_add(Unfusing& parts) {
  const ValueId dx =
      parts.append(OpKind::layer_norm_backward, {parts.in(0), parts.in(1), parts.in(2), parts.in(3), parts.in(4)}, kNew,
                   parts.out_from(1));
  parts.append(OpKind::add, {dx, parts.in(5)}, parts.out(0));
}

void rms_norm_backward_add(Unfusing& parts) {
  const ValueId dx = parts.append(OpKind::rms_norm_backward, {parts.in(0), parts.in(1), parts.in(2), parts.in(3)}, kNew,
                                  parts.out_from(1));
  parts.append(OpKind::add, {dx, parts.in(4)}, parts.out(0));
}

void gelu_backward_bias(Unfusing& parts) {
  parts.append(OpKind::gelu_backward, {parts.in(0), parts.in(1)}, parts.out(0));
  parts.append(OpKind::bias_gradient, {parts.out(0)}, parts.out(1));
}

void dropout_bias(Unfusing& parts) {
  parts.append(OpKind::dropout, {parts.in(0)}, parts.out(0));
  parts.append(OpKind::bias_gradient, {parts.out(0)}, parts.out(1));
}

struct Definition {
  OpKind kind;
  void (*unfuse)(Unfusing& parts);
};

constexpr Definition kDefinitions[] = {
#define L2L_OP(kind)
#define L2L_FUSED_OP(kind) {OpKind::kind, kind},
#include "compiler/ir/ops.def"
#undef L2L_OP
#undef L2L_FUSED_OP
};

const Definition* definition_of(OpKind kind) {
  for (const Definition& definition : kDefinitions) {
    if (definition.kind == kind) return &definition;
  }
  return nullptr;
}

}  // namespace

bool is_fused(OpKind kind) { return definition_of(kind) != nullptr; }

Graph unfused(const Graph& graph, const Op& op) {
  const Definition* const definition = definition_of(op.kind);
  if (definition == nullptr) throw Error(graph.name + ": " + std::string(name_of(op.kind)) + " is not a fused op");
  Unfusing parts(graph, op);
  definition->unfuse(parts);
  return parts.take();
}

}  // namespace l2l::compiler

#include "compiler/ir/graph.h"

#include <algorithm>
#include <iterator>

#include "compiler/ir/op_table.h"

namespace l2l::compiler {

std::string_view name_of(Region region) {
  static constexpr std::string_view kNames[] = {
      "weights", "gradients", "input",   "output", "output_gradient", "input_gradient", "tokens", "targets",
      "rows",    "loss",      "drained", "normed", "carry",           "cache",          "saved",  "scratch"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Region::count));
  return region < Region::count ? kNames[static_cast<std::size_t>(region)] : "?";
}

bool is_costly(OpKind kind) {
  return kind == OpKind::reduce_scatter_rows || kind == OpKind::matmul || kind == OpKind::attention ||
         kind == OpKind::attention_probabilities || kind == OpKind::attention_mix || kind == OpKind::depthwise;
}

std::string_view name_of(OpKind kind) {
  static constexpr std::string_view kNames[] = {
#define L2L_OP(kind) #kind,
#define L2L_FUSED_OP(kind) #kind,
#include "compiler/ir/ops.def"
#undef L2L_OP
#undef L2L_FUSED_OP
  };
  return kind < OpKind::count ? kNames[static_cast<std::size_t>(kind)] : "?";
}

Bytes Graph::region_bytes(Region region) const {
  if (region == Region::scratch) return 0;
  Bytes end = 0;
  for (const Value& value : values) {
    if (value.region == region) end = std::max(end, value.offset + value.bytes());
  }
  return end;
}

const Op* Graph::producer(ValueId id) const {
  const auto makes = [id](const Op& op) {
    return std::find(op.outputs.begin(), op.outputs.end(), id) != op.outputs.end();
  };
  const auto found = std::find_if(ops.begin(), ops.end(), makes);
  return found == ops.end() ? nullptr : &*found;
}

int kv_heads(const Attributes& attributes) { return attributes.kv_heads > 0 ? attributes.kv_heads : attributes.heads; }

}  // namespace l2l::compiler

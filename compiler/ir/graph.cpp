#include "compiler/ir/graph.h"

#include <algorithm>

#include "compiler/ir/op_table.h"

namespace l2l::compiler {

std::string_view name_of(Region region) {
  switch (region) {
    case Region::weights:
      return "weights";
    case Region::gradients:
      return "gradients";
    case Region::input:
      return "input";
    case Region::output:
      return "output";
    case Region::output_gradient:
      return "output_gradient";
    case Region::input_gradient:
      return "input_gradient";
    case Region::tokens:
      return "tokens";
    case Region::targets:
      return "targets";
    case Region::loss:
      return "loss";
    case Region::drained:
      return "drained";
    case Region::normed:
      return "normed";
    case Region::carry:
      return "carry";
    case Region::saved:
      return "saved";
    case Region::scratch:
      return "scratch";
    case Region::count:
      break;
  }
  return "?";
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

int kv_heads(const Attributes& attributes) { return attributes.kv_heads > 0 ? attributes.kv_heads : attributes.heads; }

}  // namespace l2l::compiler

// Removes values that no op reads or writes.
#pragma once

#include "compiler/ir/graph.h"

namespace l2l::compiler {

enum class Unused : std::uint8_t { all, scratch };

// Removes all such values, or only those in scratch. The remaining values are renumbered in order.
void drop_unused(Graph& graph, Unused which);

}  // namespace l2l::compiler

// l2l-bench planner: arenas of layer programs on three streams, of contiguous groups, and what safe pairs cost.
#pragma once

namespace l2l::tools {

// Prints tables, or one JSON object. Returns the exit status.
int bench_planner(bool json);

}  // namespace l2l::tools

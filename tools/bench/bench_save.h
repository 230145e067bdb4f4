// l2l-bench save: what a checkpoint every ten steps costs, in one run.
#pragma once

namespace l2l::tools {

// Prints a table, or one JSON object. Returns the exit status.
int bench_save(bool json);

}  // namespace l2l::tools

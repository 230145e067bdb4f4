// l2l-bench inner_loop: throughput over microbatches, against the cost model of the paper.
#pragma once

namespace l2l::tools {

// Prints a table, or one JSON object: microbatches 1, 2, 4, 8 of constant size, a layer's wire taking as long as its
// forward of one microbatch; on the paced device, and on the host device with a throttled link. Returns the exit
// status.
int bench_inner_loop(bool json);

}  // namespace l2l::tools

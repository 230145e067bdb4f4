// l2l-bench overlap: does the link hide behind compute, where all bytes take 0.6 of it?
#pragma once

namespace l2l::tools {

// Prints a table, or one JSON object: on the paced device, and on the host device with a throttled link. Returns the
// exit status.
int bench_overlap(bool json);

}  // namespace l2l::tools

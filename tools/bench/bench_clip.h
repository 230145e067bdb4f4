// l2l-bench clip: what exact clipping by the norm of all gradients costs in time.
#pragma once

namespace l2l::tools {

// Prints a table, or one JSON object: steps with optimizer.clip = "global" over steps with "none", in turn, from where
// the host's work is a small part of the device's to where it is many times that. Returns the exit status.
int bench_clip(bool json);

}  // namespace l2l::tools

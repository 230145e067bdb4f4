// l2l-bench relay: relay against resident execution on the same model, in one run.
#pragma once

namespace l2l::tools {

// Prints a table, or one JSON object. Returns the exit status.
int bench_relay(bool json);

}  // namespace l2l::tools

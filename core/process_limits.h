// Limits of the system on this process, checked before they are met in the middle of a run (getrlimit(2),
// control groups).
#pragma once

#include <string>

#include "core/bytes.h"

namespace l2l {

// Each throws BadInput, or OutOfMemory, which names need, limit and remedy.

// Unless `count` threads more can run at once: makes them, and lets them end.
void check_threads(int count);
// Unless `count` files more can be open at once.
void check_open_files(int count);
// Unless `bytes` of address space more can be taken, beside the stacks of `threads` threads more.
void check_address_space(Bytes bytes, int threads);

// What restrains memory and threads: "ulimit -v 400 MiB, ulimit -u 100, the address-space limit (ulimit -v), of which
// 12 MiB are left". The last is the narrowest limit on memory.
std::string limits_in_force();

// Within a handler of what the C++ library throws where memory or threads run out: an OutOfMemory or BadInput that
// names the limits in force. Rethrows everything else.
[[noreturn]] void rethrow_with_limits();

}  // namespace l2l

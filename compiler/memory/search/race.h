// Tasks in a fixed order on some threads, of which the first in that order that succeeds wins, whichever finishes
// first: the winner does not depend on the number of threads.
#pragma once

#include <cstddef>
#include <functional>

namespace l2l::compiler::memory {

// `task(index, lost)` is called once for each index below `count`, at most `threads` at a time, but for those after a
// winner. It says whether it succeeded; it may stop when lost(), which is thread-safe, is true: a task before it has
// succeeded. Waits for all; rethrows what a task throws. Returns the winner, or `count`.
std::size_t race(std::size_t count, int threads,
                 const std::function<bool(std::size_t index, const std::function<bool()>& lost)>& task);

}  // namespace l2l::compiler::memory

// A parallel search with a deterministic winner.
#pragma once

#include <cstddef>
#include <functional>

namespace l2l::compiler::memory {

// Calls task(index, lost) for the indices below `count`, in order, on up to `threads` threads. A task returns whether
// it succeeded. The winner is the successful task of lowest index, whatever the number of threads: tasks above it may
// not be started, and may stop when lost(), which is thread-safe, is true. Waits for all tasks; rethrows what a task
// throws. Returns the winner, or `count`.
std::size_t race(std::size_t count, int threads,
                 const std::function<bool(std::size_t index, const std::function<bool()>& lost)>& task);

}  // namespace l2l::compiler::memory

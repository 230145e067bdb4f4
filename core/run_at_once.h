// Calls that wait for each other, as devices do that exchange.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace l2l {

// run(i) for i in [0, count), each on a thread of its own. Where one throws, or its thread cannot be made, calls
// abort(cause), which must end the waits of the others, begun or not. Rethrows that cause after all have ended.
inline void run_at_once(std::size_t count, const std::function<void(std::size_t)>& run,
                        const std::function<void(std::exception_ptr)>& abort) {
  std::mutex mutex;
  std::exception_ptr cause;  // guarded by mutex
  const auto fail = [&] {
    {
      const std::lock_guard lock(mutex);
      if (cause) return;
      cause = std::current_exception();
    }
    abort(cause);
  };
  {
    std::vector<std::jthread> threads;  // join at the end
    try {
      for (std::size_t i = 0; i < count; ++i) {
        threads.emplace_back([&, i] {
          try {
            run(i);
          } catch (...) {
            fail();
          }
        });
      }
    } catch (...) {
      fail();
    }
  }
  if (cause) std::rethrow_exception(cause);
}

}  // namespace l2l

// The first failure of a run: stored where it happens, rethrown where somebody waits (law 8).
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace l2l {

// What the exception that is being handled says.
std::string message_of_current_exception();

// Thread-safe. Components that block register a waker, which makes their waiters check failed() again.
class Failure {
 public:
  // Unregisters its waker when destroyed; afterwards the waker does not run. Movable; thread-bound.
  class Registration {
   public:
    void reset() { failure_.reset(); }

   private:
    friend class Failure;
    struct Unregister {
      std::uint64_t id;
      void operator()(Failure* failure) const;
    };
    std::unique_ptr<Failure, Unregister> failure_;
  };

  // Stores `error` and wakes every waiter; later errors are dropped.
  void fail(std::exception_ptr error);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Rethrows the stored failure, if any.
  void rethrow() const;
  // The stored failure; null without one.
  std::exception_ptr error() const { return failed() ? error_ : nullptr; }
  // `wake` is called by fail(), possibly from another thread, and may call back only what is const. Typically it locks
  // and unlocks the waiters' mutex and notifies them.
  [[nodiscard]] Registration on_failure(std::function<void()> wake);

 private:
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  std::exception_ptr error_;                               // constant once failed_ is set
  std::map<std::uint64_t, std::function<void()>> wakers_;  // guarded by mutex_
  std::uint64_t next_id_ = 1;                              // guarded by mutex_
};

}  // namespace l2l

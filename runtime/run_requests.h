// What other threads ask of a run.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>

#include "core/failure.h"
#include "l2l/errors.h"

namespace l2l::runtime {

// Thread-safe.
class RunRequests {
 public:
  std::atomic<bool> stop{false}, save{false};

  // Fails what is connected with Aborted.
  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    if (failure_ != nullptr) failure_->fail(error());
  }
  // Throws Aborted after abort().
  void check_aborted() const {
    if (aborted_) std::rethrow_exception(error());
  }
  // `failure` must live until disconnect().
  void connect(Failure& failure) {
    const std::lock_guard lock(mutex_);
    failure_ = &failure;
    if (aborted_) failure_->fail(error());
  }
  void disconnect() {
    const std::lock_guard lock(mutex_);
    failure_ = nullptr;
  }

 private:
  static std::exception_ptr error() { return std::make_exception_ptr(Aborted("abort() was called")); }

  std::atomic<bool> aborted_{false};
  std::mutex mutex_;
  Failure* failure_ = nullptr;  // guarded by mutex_
};

}  // namespace l2l::runtime

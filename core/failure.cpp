#include "core/failure.h"

#include <utility>

namespace l2l {

Failure::Registration::Registration(Registration&& other) noexcept
    : failure_(std::exchange(other.failure_, nullptr)), id_(other.id_) {}

Failure::Registration& Failure::Registration::operator=(Registration&& other) noexcept {
  if (this != &other) {
    reset();
    failure_ = std::exchange(other.failure_, nullptr);
    id_ = other.id_;
  }
  return *this;
}

// Waits for a fail() that is running wakers, which hold the same lock.
void Failure::Registration::reset() {
  if (failure_ == nullptr) return;
  const std::lock_guard lock(failure_->mutex_);
  failure_->wakers_.erase(id_);
  failure_ = nullptr;
}

void Failure::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (failed()) return;
  error_ = std::move(error);
  failed_.store(true, std::memory_order_release);
  for (const auto& [id, wake] : wakers_) wake();
}

// Takes no lock: error_ is constant once failed_ is set, and the caller may hold the lock that a waker wants.
void Failure::rethrow() const {
  if (failed()) std::rethrow_exception(error_);
}

Failure::Registration Failure::on_failure(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t id = next_id_++;
  wakers_.emplace(id, std::move(wake));
  return Registration(*this, id);
}

}  // namespace l2l

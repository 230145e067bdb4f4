#include "core/failure.h"

#include <utility>

namespace l2l {

std::string message_of_current_exception() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "what was thrown is no std::exception";
  }
}

// Waits for a fail() that is running wakers, which hold the same lock.
void Failure::Registration::Unregister::operator()(Failure* failure) const {
  const std::lock_guard lock(failure->mutex_);
  failure->wakers_.erase(id);
}

void Failure::fail(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (failed()) return;
  error_ = std::move(error);
  failed_.store(true, std::memory_order_release);
  for (const auto& [id, wake] : wakers_) wake();
}

// Takes no lock: the caller may hold the one that a waker wants.
void Failure::rethrow() const {
  if (failed()) std::rethrow_exception(error_);
}

Failure::Registration Failure::on_failure(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t id = next_id_++;
  wakers_.emplace(id, std::move(wake));
  Registration registration;
  registration.failure_ = {this, {id}};
  return registration;
}

}  // namespace l2l

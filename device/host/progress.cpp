#include "device/host/progress.h"

#include <algorithm>

namespace l2l::device {

void Progress::advance() {
  if (++completed_ < awaited_) return;
  awaited_ = kNobody;  // those who wait for more say so again
  changed_.notify_all();
}

void Progress::wait(std::unique_lock<std::mutex>& lock, std::uint64_t position) {
  while (completed_ < position) {
    awaited_ = std::min(awaited_, position);
    changed_.wait(lock);
  }
}

void Mark::wait() const {
  if (!progress) return;
  std::unique_lock lock(progress->mutex);
  progress->wait(lock, position);
}

}  // namespace l2l::device

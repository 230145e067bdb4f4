#include "device/cuda/deferred.h"

#include <pthread.h>

#include <string>
#include <utility>

#include "core/activity.h"

namespace l2l::device::cuda {

DeferredQueue::DeferredQueue(const std::string& name, std::function<void(const Entry&)> execute)
    : execute_(std::move(execute)), entries_(kCapacity), thread_([this, name] {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        const ThreadActivity listed(name);
        work();
      }) {}

DeferredQueue::~DeferredQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DeferredQueue::push(Entry entry) {
  {
    std::unique_lock lock(mutex_);
    const ActivitySpan span(Doing::rests, "the wait for room for a command");
    changed_.wait(lock, [&] { return pushed_ - executed_ < kCapacity; });
    entries_[pushed_++ % kCapacity] = std::move(entry);
  }
  changed_.notify_all();
}

void DeferredQueue::drain() {
  std::unique_lock lock(mutex_);
  const std::uint64_t last = pushed_;
  const ActivitySpan span(Doing::rests, "the wait for a stream");
  changed_.wait(lock, [&] { return executed_ >= last; });
}

void DeferredQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    {
      const ActivitySpan span(Doing::rests, "the wait for commands");
      changed_.wait(lock, [&] { return pushed_ > executed_ || stopped_; });
    }
    if (pushed_ == executed_) return;
    Entry& entry = entries_[executed_ % kCapacity];
    lock.unlock();
    execute_(entry);
    entry.command = std::monostate{};  // releases what it refers to
    lock.lock();
    ++executed_;
    changed_.notify_all();
  }
}

}  // namespace l2l::device::cuda

#include "runtime/relay_threads.h"

namespace l2l::runtime {

RelayThreads::RelayThreads(int devices, Failure& failure) : failure_(failure) {
  for (int device = 1; device < devices; ++device) threads_.emplace_back([this, device] { serve(device); });
}

RelayThreads::~RelayThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RelayThreads::run(Task task) {
  if (!threads_.empty()) {
    {
      const std::lock_guard lock(mutex_);
      task_ = task;
      running_ = static_cast<int>(threads_.size());
      ++calls_;
    }
    changed_.notify_all();
  }
  perform(task, 0);
  if (!threads_.empty()) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ == 0; });
  }
  failure_.rethrow();
}

void RelayThreads::serve(int device) {
  std::uint64_t done = 0;
  while (true) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || calls_ > done; });
      if (calls_ == done) return;
      task = task_;
      ++done;
    }
    perform(task, device);
    {
      const std::lock_guard lock(mutex_);
      --running_;
    }
    changed_.notify_all();
  }
}

// Reports a failure without holding the mutex.
void RelayThreads::perform(const Task& task, int device) {
  try {
    task.function(task.context, device);
  } catch (...) {
    failure_.fail(std::current_exception());
  }
}

}  // namespace l2l::runtime

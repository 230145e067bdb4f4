// A FIFO of work that a thread of its own puts into a CUDA stream. Only where copies are staged: the thread may wait
// for the device and move bytes, while whoever enqueues goes on.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "device/cuda/command.h"

namespace l2l::device::cuda {

// Thread-safe.
class DeferredQueue {
 public:
  // `execute` is called for each entry, in order, and must not throw.
  DeferredQueue(const std::string& name, std::function<void(const Entry&)> execute);
  // Works off what is there.
  ~DeferredQueue();
  DeferredQueue(const DeferredQueue&) = delete;
  DeferredQueue& operator=(const DeferredQueue&) = delete;

  // Returns before the entry is executed; waits while the queue is full.
  void push(Entry entry);
  // Waits until all that was pushed before is executed.
  void drain();

 private:
  static constexpr std::size_t kCapacity = 1024;

  void work();

  const std::function<void(const Entry&)> execute_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> entries_;  // a ring; guarded by mutex_, an entry being executed belongs to the thread
  std::uint64_t pushed_ = 0;    // guarded by mutex_
  std::uint64_t executed_ = 0;  // guarded by mutex_
  bool stopped_ = false;        // guarded by mutex_
  std::thread thread_;
};

}  // namespace l2l::device::cuda

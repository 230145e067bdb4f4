// The threads that lead the devices: each pass runs on all of them at once, one relay thread per device.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "core/failure.h"

namespace l2l::runtime {

// Thread-bound: the thread that calls run(), which leads device 0; with one device there is no other.
class RelayThreads {
 public:
  RelayThreads(int devices, Failure& failure);
  // Waits for the threads; they must not be in a call.
  ~RelayThreads();
  RelayThreads(const RelayThreads&) = delete;
  RelayThreads& operator=(const RelayThreads&) = delete;

  // call(device) for every device, each on its thread; returns when all have returned. What one of them throws becomes
  // the failure of the run, at which the waits of the others throw, too; the first one is rethrown. Allocates nothing.
  template <typename Call>
  void run(const Call& call) {
    run({&call, [](const void* context, int device) { (*static_cast<const Call*>(context))(device); }});
  }

 private:
  struct Task {
    const void* context = nullptr;
    void (*function)(const void* context, int device) = nullptr;
  };
  void run(Task task);
  void lead(int device);
  void perform(const Task& task, int device);

  Failure& failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Task task_;                         // guarded by mutex_
  std::uint64_t calls_ = 0;           // guarded by mutex_
  int under_way_ = 0;                 // threads in the call; guarded by mutex_
  bool stopping_ = false;             // guarded by mutex_
  std::vector<std::thread> threads_;  // of devices 1, 2, ...; last: start when all else is there
};

}  // namespace l2l::runtime

// One relay thread per device, so that a pass runs on all devices at once.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "core/failure.h"

namespace l2l::runtime {

// Thread-bound. The thread that calls run() serves device 0; only further devices have threads of their own.
class RelayThreads {
 public:
  RelayThreads(int devices, Failure& failure);
  // Joins the threads. No call may be in progress.
  ~RelayThreads();
  RelayThreads(const RelayThreads&) = delete;
  RelayThreads& operator=(const RelayThreads&) = delete;

  // Runs call(device) for every device, each on its own thread, and returns when all have returned. If one throws, the
  // waits of the others throw, too, and the first failure is rethrown. Allocates nothing.
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
  void serve(int device);
  void perform(const Task& task, int device);

  Failure& failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Task task_;                         // guarded by mutex_
  std::uint64_t calls_ = 0;           // guarded by mutex_
  int running_ = 0;                   // threads in the call; guarded by mutex_
  bool stopping_ = false;             // guarded by mutex_
  std::vector<std::thread> threads_;  // of devices 1, 2, ...; last: they use all of the above
};

}  // namespace l2l::runtime

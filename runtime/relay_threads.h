// One relay thread per device, so that a pass runs on all devices at once.
#pragma once

#include <barrier>
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
    context_ = &call;
    function_ = [](const void* context, int device) { (*static_cast<const Call*>(context))(device); };
    begin_.arrive_and_wait();
    perform(0);
    wait_for_others();
    failure_.rethrow();
  }

 private:
  void join();
  void serve(int device);
  void perform(int device);
  void wait_for_others();

  Failure& failure_;
  // The call; without a function the threads end. Written by run()'s thread while the others wait for `begin_`.
  const void* context_ = nullptr;
  void (*function_)(const void* context, int device) = nullptr;
  std::barrier<> begin_, end_;        // of a call: all threads pass both
  std::vector<std::thread> threads_;  // of devices 1, 2, ...; last: they use all of the above
};

}  // namespace l2l::runtime

#include "runtime/relay_threads.h"

#include "core/activity.h"

namespace l2l::runtime {

RelayThreads::RelayThreads(int devices, Failure& failure) : failure_(failure), begin_(devices), end_(devices) {
  int device = 1;
  try {
    for (; device < devices; ++device) threads_.emplace_back([this, device] { serve(device); });
  } catch (...) {  // no more threads: those that run must be joined before the members go
    for (; device < devices; ++device) begin_.arrive_and_drop();  // they wait for all
    join();
    throw;
  }
}

RelayThreads::~RelayThreads() { join(); }

void RelayThreads::join() {
  function_ = nullptr;
  begin_.arrive_and_wait();
  for (std::thread& thread : threads_) thread.join();
}

void RelayThreads::serve(int device) {
  const ThreadActivity listed("relay", device);
  while (true) {
    {
      const ActivitySpan span(Doing::rests, "the wait for a pass");
      begin_.arrive_and_wait();
    }
    if (function_ == nullptr) return;
    perform(device);
    wait_for_others();
  }
}

void RelayThreads::wait_for_others() {
  const ActivitySpan span(Doing::rests, "the wait for the other devices");
  end_.arrive_and_wait();
}

void RelayThreads::perform(int device) {
  try {
    function_(context_, device);
  } catch (...) {
    failure_.fail(named_exception("relay " + std::to_string(device)));
  }
}

}  // namespace l2l::runtime

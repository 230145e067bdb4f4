// Streams, events and captures of the stand-in runtime.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace l2l::emulation {

using Work = std::function<void()>;

// One passing of a stream. Thread-safe.
class Moment {
 public:
  void pass();
  void wait() const;
  bool passed() const;
  // Once it has passed.
  std::chrono::steady_clock::time_point when() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool passed_ = false;                         // guarded by mutex_
  std::chrono::steady_clock::time_point when_;  // guarded by mutex_
};

// Of a stream's thread: what passes in this stream from now on is later, though nobody waits for it.
void advance_clock(std::chrono::nanoseconds by);

// A graph in the making. Guarded by capture_mutex().
struct Capture {
  std::vector<Work> works;  // in the order of the calls, which all dependencies agree with
  std::set<cudaStream_t> streams;
  std::set<cudaStream_t> unjoined;  // whose work no other stream waits for yet; the first stream needs no joining
  cudaStream_t first = nullptr;
  bool spoiled = false;
};

}  // namespace l2l::emulation

// The names of the runtime's own opaque structures.

// A FIFO of work with a thread. Thread-safe.
struct CUstream_st {
 public:
  // Starts the thread.
  static cudaStream_t create();
  // The thread ends, and frees this, when all is done. To be called once, last.
  void retire();
  void push(l2l::emulation::Work work);
  // A moment that passes behind all that was pushed before.
  std::shared_ptr<l2l::emulation::Moment> mark();

  std::shared_ptr<l2l::emulation::Capture> capture;  // guarded by capture_mutex()
  int device = 0;                                    // constant once made

 private:
  CUstream_st() = default;
  ~CUstream_st() = default;
  void run();
  // Whether the thread shall end; then nobody else knows this any more.
  bool leave();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<l2l::emulation::Work> works_;  // guarded by mutex_
  bool retired_ = false;                    // guarded by mutex_
};

// Guarded by capture_mutex().
struct CUevent_st {
  bool timed = true;
  int device = 0;                                    // whose streams may record it
  std::shared_ptr<l2l::emulation::Moment> moment;    // of the latest record; nullptr: none
  std::shared_ptr<l2l::emulation::Capture> capture;  // where it was recorded; nullptr: in no capture
  cudaStream_t captured_stream = nullptr;
};

struct CUgraph_st {
  std::vector<l2l::emulation::Work> works;
};

struct CUgraphExec_st {
  std::shared_ptr<const std::vector<l2l::emulation::Work>> works;
};

namespace l2l::emulation {

std::mutex& capture_mutex();
// The stream itself, or the default one for nullptr.
cudaStream_t stream_of(cudaStream_t stream);
// Waits for all work that was enqueued on any stream before.
void wait_for_device();

}  // namespace l2l::emulation

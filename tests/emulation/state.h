// What the functions of the stand-in runtime share: the sticky error, and who owns which memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

#include "tests/emulation/runtime.h"

namespace l2l::emulation {

// The first fault of enqueued work: every later call returns it. Thread-safe.
class StickyError {
 public:
  cudaError_t status() const;
  void set(cudaError_t status, const std::string& message);
  void clear();
  // As long as the process lives.
  const char* message() const;

 private:
  mutable std::mutex mutex_;
  cudaError_t status_ = cudaSuccess;  // guarded by mutex_
  std::string message_;               // guarded by mutex_
};

enum class MemoryKind { device, pinned, pageable };

// Ranges of memory, each by its first address. Thread-safe.
class Ranges {
 public:
  // False: `total` bytes would be more than `limit`, or the range overlaps another.
  bool add(const void* memory, std::size_t bytes, std::size_t limit);
  // Bytes of the range that begins there; 0: none does.
  std::size_t remove(const void* memory);
  // Whether an address lies in a range, and whether all of [memory, memory + bytes) lies in one.
  bool holds(const void* memory) const;
  bool holds_all(const void* memory, std::size_t bytes) const;
  std::size_t total() const;

 private:
  std::map<const std::byte*, std::size_t>::const_iterator find(const void* memory) const;

  mutable std::mutex mutex_;
  std::map<const std::byte*, std::size_t> ranges_;  // guarded by mutex_
  std::size_t total_ = 0;                           // guarded by mutex_
};

struct State {
  StickyError error;
  Ranges device, pinned;
};
// Never destroyed: streams' threads outlive main().
State& state();

MemoryKind kind_of(const void* memory);

// What a runtime function returns: remembered for cudaGetLastError() of this thread.
cudaError_t report(cudaError_t status);

// Runs `function` unless there is a sticky error; reports.
template <typename Function>
cudaError_t call(const Function& function) {
  if (const cudaError_t status = state().error.status()) return report(status);
  return report(function());
}

// The same for functions that must not be called while this thread captures (cudaStreamCaptureModeThreadLocal): such a
// call fails and spoils the capture.
bool spoil_capture_of_this_thread();
template <typename Function>
cudaError_t unsafe_call(const Function& function) {
  return call([&] { return spoil_capture_of_this_thread() ? cudaErrorStreamCaptureUnsupported : function(); });
}

// The same for what gives memory back: it does so after a sticky error, too, which it then returns.
template <typename Function>
cudaError_t release_call(const Function& function) {
  if (spoil_capture_of_this_thread()) return report(cudaErrorStreamCaptureUnsupported);
  const cudaError_t status = function(), sticky = state().error.status();
  return report(sticky != cudaSuccess ? sticky : status);
}

}  // namespace l2l::emulation

// A pool of threads for arithmetic. One interface, two files to link: workers_tbb.cpp (oneTBB) and workers_std.cpp
// (std::thread, for ThreadSanitizer builds and machines without oneTBB).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/affinity.h"

namespace l2l {

class Trace;

// A borrowed callable void(block, slot): no allocation, valid for the duration of the call it is passed to.
class BlockFunction {
 public:
  template <typename F>
  BlockFunction(const F& function)  // NOLINT: implicit on purpose, like a function_ref
      : object_(&function),
        call_([](const void* object, std::int64_t block, int slot) { (*static_cast<const F*>(object))(block, slot); }) {
  }
  void operator()(std::int64_t block, int slot) const { call_(object_, block, slot); }

 private:
  const void* object_;
  void (*call_)(const void*, std::int64_t, int);
};

// Thread-safe in construction and destruction; parallel_for is thread-bound: one call at a time.
// Every thread that runs a block has flush-to-zero and denormals-are-zero set (denormal moments cost 24x). Blocks are
// handed out without a lock: by an atomic counter, or by oneTBB's task stealing.
class Workers {
 public:
  // `threads` at least 1, the caller of parallel_for included. The others stay on `cpus`, unless there are none; where
  // the caller runs is its own affair (bind_thread()).
  Workers(std::string name, int threads, const std::vector<int>& cpus = {});
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const { return threads_; }

  // Runs function(block, slot) for block in [0, blocks), in any order, and returns when all are done; `slot` is below
  // threads() and no two blocks run in one slot at a time (index of per-thread workspace). The caller takes part. The
  // partition into blocks is the caller's, so results do not depend on threads(). Rethrows the first exception.
  void parallel_for(std::int64_t blocks, BlockFunction function);

  // Gives each thread a track "NAME i" of `trace`, with a span from its first to its last block for every call of
  // parallel_for. Not during one.
  void set_trace(Trace& trace, const std::string& name);
  // Name (must outlive the trace) and layer of the spans of the calls from now on.
  void annotate(std::string_view name, int layer);

 private:
  struct Implementation;
  // What one thread does in one call.
  struct alignas(64) Span {
    int track = 0;
    bool worked = false;
    std::int64_t begin = 0, end = 0;  // ticks of Clock (core/trace.h)
  };
  void run(std::int64_t blocks, BlockFunction function);

  int threads_;
  Trace* trace_ = nullptr;
  std::vector<Span> spans_;  // by slot
  std::string_view span_name_ = "blocks";
  int span_layer_ = -1;
  std::unique_ptr<Implementation> implementation_;
};

// Number of cores this process may use (affinity mask and cgroup quota), at least 1.
int available_cores();

// Sets flush-to-zero and denormals-are-zero on the calling thread (arithmetic threads and test oracles).
void flush_denormals_to_zero();

}  // namespace l2l

// A pool of threads for arithmetic. One of two files is linked: workers_tbb.cpp (oneTBB), or workers_std.cpp
// (std::thread; for ThreadSanitizer builds and machines without oneTBB).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/affinity.h"

namespace l2l {

class Trace;

// A reference to a callable void(block, slot), valid for the duration of the call that it is passed to.
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

// Thread-bound. Every thread that runs a block has flush-to-zero and denormals-are-zero set (denormal moments cost
// 24x). Blocks are handed out without a lock: by an atomic counter, or by oneTBB's task stealing.
class Workers {
 public:
  // `threads`: at least 1, the caller of parallel_for included. The others stay on `cpus`, if there are any; the caller
  // binds itself (bind_thread()). They are all made here. Throws BadInput where the system refuses one.
  Workers(std::string name, int threads, const std::vector<int>& cpus = {});
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const { return threads_; }

  // Runs function(block, slot) for block in [0, blocks), in any order, and returns when all are done. The calling
  // thread takes part. `slot` is below threads(), and no two blocks run in one slot at a time: an index of per-thread
  // workspace. The caller chooses the blocks, so results do not depend on threads(). Rethrows the first exception.
  void parallel_for(std::int64_t blocks, BlockFunction function);

  // Gives each thread a track "NAME i" in `trace`, with a span from its first to its last block for every call of
  // parallel_for. Not to be called during one.
  void set_trace(Trace& trace, const std::string& name);
  // Sets name and layer of the spans of later calls. The name must outlive the trace.
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
  // With several threads and blocks. Defined by the linked file, as are Implementation, constructor and destructor.
  void run_in_parallel(std::int64_t blocks, BlockFunction function);

  int threads_;
  Trace* trace_ = nullptr;
  std::vector<Span> spans_;  // by slot
  std::string_view span_name_ = "blocks";
  int span_layer_ = -1;
  std::unique_ptr<Implementation> implementation_;
};

// Cores that this process may use, by affinity mask and control groups; at least 1.
int available_cores();

// Sets flush-to-zero and denormals-are-zero on the calling thread (arithmetic threads and test oracles).
void flush_denormals_to_zero();

}  // namespace l2l

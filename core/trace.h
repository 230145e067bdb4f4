// Spans of time for `--trace`: one track per stream and worker, written as Chrome-trace JSON (opens in Perfetto).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"

namespace l2l {

using Clock = std::chrono::steady_clock;

// Thread-safe. Holds at most `capacity` spans, reserved at construction, so that recording allocates only for a name
// that is new. Further spans are dropped, and their number is written to the file.
class Trace {
 public:
  explicit Trace(std::size_t capacity);
  // Memory of `capacity` spans; the constructor touches all of it.
  static Bytes bytes(std::size_t capacity) { return capacity * sizeof(Span); }
  // Adds a track and returns its id. Not for the step loop.
  int add_track(std::string name);
  // The trace's own copy of `name`, which lives as long as the trace: programs may go before it is written.
  std::string_view keep(std::string_view name);
  // layer and microbatch below 0 are left out.
  void record(int track, std::string_view name, Clock::time_point begin, Clock::time_point end, int layer,
              int microbatch);

  struct Span {
    std::string_view name;          // lives as long as the trace
    std::int64_t begin_ns, end_ns;  // since the trace began
    int track, layer, microbatch;
  };
  // The spans so far, in order of recording; the tracks by id.
  std::vector<Span> spans() const;
  std::vector<std::string> tracks() const;
  std::size_t dropped() const;
  // Writes the file; throws Error naming it.
  void write(const std::string& file) const;

 private:
  std::string_view keep_locked(std::string_view name);

  const Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;
  std::vector<std::string> tracks_;           // guarded by mutex_
  std::set<std::string, std::less<>> names_;  // guarded by mutex_
  std::vector<Span> spans_;                   // guarded by mutex_
  std::size_t dropped_ = 0;                   // guarded by mutex_
};

}  // namespace l2l

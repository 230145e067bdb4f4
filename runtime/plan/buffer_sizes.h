// The sizes of many buffers, most of which are equal: of millions of microbatches, a few numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/bytes.h"

namespace l2l::runtime {

// A list of sizes in bytes; neighbours of equal size are kept as one run. A value.
class BufferSizes {
 public:
  struct Run {
    std::size_t count = 0;
    Bytes size = 0;
  };

  BufferSizes() = default;
  BufferSizes(std::size_t count, Bytes size) { add(count, size); }

  void add(std::size_t count, Bytes size) {
    if (count == 0) return;
    if (!runs_.empty() && runs_.back().size == size) {
      runs_.back().count += count;
    } else {
      runs_.push_back({count, size});
    }
  }
  const std::vector<Run>& runs() const { return runs_; }
  Bytes largest() const {
    Bytes most = 0;
    for (const Run& run : runs_) most = std::max(most, run.size);
    return most;
  }
  // Each in turn.
  std::vector<Bytes> list() const {
    std::vector<Bytes> all;
    for (const Run& run : runs_) all.insert(all.end(), run.count, run.size);
    return all;
  }

 private:
  std::vector<Run> runs_;
};

}  // namespace l2l::runtime

// Copies between the device and host memory that is not page-locked: through a few page-locked buffers in turn.
#pragma once

#include <array>

#include "device/cuda/event.h"
#include "device/kernels/common/handle.h"

namespace l2l::device::cuda {

// Thread-bound: the thread of a deferred stream. While one buffer is on the link, the next one is filled or emptied.
class StagingRing {
 public:
  static constexpr Bytes kBufferBytes = 4 * kMiB;
  static constexpr std::size_t kBuffers = 3;

  // Throws DeviceError.
  explicit StagingRing(std::shared_ptr<EventPool> events);
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  // Returns when `source` was read; the copy ends with what is in `stream` then. What `source` waits for must have
  // happened. Throws DeviceError.
  void to_device(BufferView destination, BufferView source, cudaStream_t stream);
  // Returns when `destination` was written. Throws DeviceError.
  void to_host(BufferView destination, BufferView source, cudaStream_t stream);
  // The same of rows, at most kBufferBytes each, which lie close together in a buffer.
  void to_device(const RowCopy& rows, cudaStream_t stream);
  void to_host(const RowCopy& rows, cudaStream_t stream);

 private:
  struct Slot {
    PinnedMemory memory;
    EventHandle used;  // the last copy from or to it
    std::byte* data() const { return static_cast<std::byte*>(memory.get()); }
  };
  Slot& take();
  // Calls fill(piece, slot), which enqueues a copy into the buffer, and empty(piece, slot) when that is done, for each
  // of so many pieces: one is emptied while the two after it are on their way.
  template <typename Fill, typename Empty>
  void pass_to_host(Bytes pieces, cudaStream_t stream, const Fill& fill, const Empty& empty);

  const std::shared_ptr<EventPool> events_;
  std::array<Slot, kBuffers> slots_;
  std::size_t next_ = 0;
};

}  // namespace l2l::device::cuda

#include "device/cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "device/kernels/common/check.h"

namespace l2l::device::cuda {

StagingRing::StagingRing(std::shared_ptr<EventPool> events) : events_(std::move(events)) {
  for (Slot& slot : slots_) {
    void* address = nullptr;
    check(cudaHostAlloc(&address, kBufferBytes, cudaHostAllocPortable), "staging buffer: cudaHostAlloc");
    slot.memory = PinnedMemory(address);
    slot.used = events_->take();
  }
}

StagingRing::~StagingRing() {
  for (Slot& slot : slots_) events_->give(std::move(slot.used));
}

// The next buffer, when the copy that used it last is done.
StagingRing::Slot& StagingRing::take() {
  Slot& slot = slots_[next_++ % kBuffers];
  check(cudaEventSynchronize(slot.used.get()), "staged copy");
  return slot;
}

void StagingRing::to_device(BufferView destination, BufferView source, cudaStream_t stream) {
  for (Bytes done = 0; done < source.size; done += kBufferBytes) {
    const Bytes bytes = std::min(kBufferBytes, source.size - done);
    Slot& slot = take();
    std::memcpy(slot.data(), source.data + done, bytes);
    check(cudaMemcpyAsync(destination.data + done, slot.data(), bytes, cudaMemcpyHostToDevice, stream), "staged copy");
    check(cudaEventRecord(slot.used.get(), stream), "staged copy");
  }
}

void StagingRing::to_host(BufferView destination, BufferView source, cudaStream_t stream) {
  const Bytes pieces = (source.size + kBufferBytes - 1) / kBufferBytes;
  const auto bytes_of = [&](Bytes piece) { return std::min(kBufferBytes, source.size - piece * kBufferBytes); };
  const auto empty = [&](Bytes piece, Slot& slot) {
    check(cudaEventSynchronize(slot.used.get()), "staged copy");
    std::memcpy(destination.data + piece * kBufferBytes, slot.data(), bytes_of(piece));
  };
  // One piece is emptied while the two after it are on their way.
  std::array<Slot*, kBuffers> filled{};
  for (Bytes piece = 0; piece < pieces + kBuffers - 1; ++piece) {
    if (piece < pieces) {
      Slot& slot = take();
      const std::byte* from = source.data + piece * kBufferBytes;
      check(cudaMemcpyAsync(slot.data(), from, bytes_of(piece), cudaMemcpyDeviceToHost, stream), "staged copy");
      check(cudaEventRecord(slot.used.get(), stream), "staged copy");
      filled[piece % kBuffers] = &slot;
    }
    if (piece + 1 >= kBuffers) {
      const Bytes oldest = piece + 1 - kBuffers;
      if (oldest < pieces) empty(oldest, *filled[oldest % kBuffers]);
    }
  }
}

}  // namespace l2l::device::cuda

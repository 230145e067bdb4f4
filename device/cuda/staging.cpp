#include "device/cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "device/kernels/common/check.h"
#include "device/row_copy.h"

namespace l2l::device::cuda {
namespace {

Bytes pieces_of(Bytes all, Bytes most) { return (all + most - 1) / most; }

}  // namespace

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

template <typename Fill, typename Empty>
void StagingRing::pass_to_host(Bytes pieces, cudaStream_t stream, const Fill& fill, const Empty& empty) {
  std::array<Slot*, kBuffers> filled{};
  for (Bytes piece = 0; piece < pieces + kBuffers - 1; ++piece) {
    if (piece < pieces) {
      Slot& slot = take();
      fill(piece, slot.data());
      check(cudaEventRecord(slot.used.get(), stream), "staged copy");
      filled[piece % kBuffers] = &slot;
    }
    if (piece + 1 < kBuffers) continue;
    const Bytes oldest = piece + 1 - kBuffers;
    if (oldest >= pieces) continue;
    Slot& slot = *filled[oldest % kBuffers];
    check(cudaEventSynchronize(slot.used.get()), "staged copy");
    empty(oldest, slot.data());
  }
}

void StagingRing::to_host(BufferView destination, BufferView source, cudaStream_t stream) {
  const auto bytes_of = [&](Bytes piece) { return std::min(kBufferBytes, source.size - piece * kBufferBytes); };
  pass_to_host(
      pieces_of(source.size, kBufferBytes), stream,
      [&](Bytes piece, std::byte* buffer) {
        const std::byte* const from = source.data + piece * kBufferBytes;
        check(cudaMemcpyAsync(buffer, from, bytes_of(piece), cudaMemcpyDeviceToHost, stream), "staged copy");
      },
      [&](Bytes piece, const std::byte* buffer) {
        std::memcpy(destination.data + piece * kBufferBytes, buffer, bytes_of(piece));
      });
}

void StagingRing::to_device(const RowCopy& rows, cudaStream_t stream) {
  const Bytes at_once = kBufferBytes / rows.row;
  for (Bytes first = 0; first < rows.rows; first += at_once) {
    const Bytes count = std::min(at_once, rows.rows - first);
    Slot& slot = take();
    copy_here({slot.data(), rows.row, rows.source + first * rows.source_stride, rows.source_stride, rows.row, count});
    check(cudaMemcpy2DAsync(rows.destination + first * rows.destination_stride, rows.destination_stride, slot.data(),
                            rows.row, rows.row, count, cudaMemcpyHostToDevice, stream),
          "staged copy");
    check(cudaEventRecord(slot.used.get(), stream), "staged copy");
  }
}

void StagingRing::to_host(const RowCopy& rows, cudaStream_t stream) {
  const Bytes at_once = kBufferBytes / rows.row;
  const auto count_of = [&](Bytes piece) { return std::min(at_once, rows.rows - piece * at_once); };
  pass_to_host(
      pieces_of(rows.rows, at_once), stream,
      [&](Bytes piece, std::byte* buffer) {
        check(cudaMemcpy2DAsync(buffer, rows.row, rows.source + piece * at_once * rows.source_stride,
                                rows.source_stride, rows.row, count_of(piece), cudaMemcpyDeviceToHost, stream),
              "staged copy");
      },
      [&](Bytes piece, const std::byte* buffer) {
        copy_here({rows.destination + piece * at_once * rows.destination_stride, rows.destination_stride, buffer,
                   rows.row, rows.row, count_of(piece)});
      });
}

}  // namespace l2l::device::cuda

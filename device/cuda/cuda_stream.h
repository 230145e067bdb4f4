// A CUDA stream, its account of time, and, where copies are staged, the thread that serves it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "device/cuda/command.h"
#include "device/cuda/deferred.h"
#include "device/cuda/device_state.h"
#include "device/cuda/staging.h"
#include "device/cuda/stopwatch.h"

namespace l2l::device::cuda {

// Thread-safe.
class CudaStream final : public Stream {
 public:
  CudaStream(std::string_view name, std::shared_ptr<DeviceState> state);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  // Puts the command into the CUDA stream at once or, of a deferred stream, into its queue. What fails is stored in the
  // state; after that, all but records and waits is skipped.
  void enqueue(Command command);
  // Waits until everything enqueued so far is done, also when it failed.
  void synchronize();
  void annotate(SpanLabel label);
  // While idle.
  void set_trace(Trace* trace, const Origin& origin);
  double stalled_seconds(WaitReason reason) const override;
  // Reads the marks of the device that it has passed.
  void read_time();

 private:
  // What was enqueued last, for errors that show later.
  struct Latest {
    std::string what = "nothing";
    SpanLabel label;
  };

  void execute(const Entry& entry);
  void execute(const RecordCommand& record);
  void execute(const WaitCommand& wait);
  void execute(const CopyCommand& copy, SpanLabel label);
  void execute(const RowsCommand& copy, SpanLabel label);
  void execute(const ZeroCommand& zero, SpanLabel label);
  void execute(const GatherCommand& gather, SpanLabel label);
  void execute(const ExchangeCommand& exchange, SpanLabel label);
  void execute(const LaunchCommand& launch, SpanLabel label);
  // Runs `enqueue` between two marks of the stopwatch.
  template <typename Enqueue>
  void measured(std::string_view what, SpanLabel label, const Enqueue& enqueue);
  void copy_whole(BufferView destination, BufferView source);
  // The first rows, as many as one call takes; returns how many.
  Bytes copy_first_rows(const RowCopy& rows);
  cudaMemcpyKind kind_of(const std::byte* destination, const std::byte* source) const;
  void copy_part(BufferView destination, BufferView source);
  void copy_staged(BufferView destination, BufferView source);
  void copy_staged(const RowCopy& rows);
  void await_host_memory();
  // Blocks until the device has done what is in the CUDA stream; failures are stored.
  void wait_for_device();
  // Records and waits without spinning. With `enqueuing`, mutex_ is held already.
  cudaError_t wait_blocking(bool enqueuing);
  void fail(std::string_view what, SpanLabel label, const std::string& why);

  const std::string name_;
  const std::uint32_t category_;  // of its NVTX ranges
  const std::shared_ptr<DeviceState> state_;
  StreamHandle stream_;
  const ParameterSlot parameters_;
  mutable std::mutex mutex_;            // held while work is enqueued; of deferred streams, by their thread alone
  mutable std::mutex time_mutex_;       // guards stopwatch_; taken after mutex_
  Stopwatch stopwatch_;                 // guarded by time_mutex_
  mutable std::mutex label_mutex_;      // taken last
  SpanLabel label_;                     // of what is enqueued next; guarded by label_mutex_
  Latest latest_;                       // guarded by label_mutex_
  std::unique_ptr<StagingRing> ring_;   // made by the first staged copy; of the queue's thread
  bool host_memory_awaited_ = false;    // by the staged copies of the present command; guarded by mutex_
  std::optional<DeferredQueue> queue_;  // of deferred streams; the last member, so that its thread ends first
};

}  // namespace l2l::device::cuda

#include "device/cuda/cuda_stream.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "core/log.h"
#include "device/cuda/host_ranges.h"
#include "device/cuda/nvtx.h"
#include "device/kernels/common/check.h"
#include "device/row_copy.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {
namespace {

// Copies are cut to this, so that those of other streams in the same direction get their turn in between: about half a
// millisecond of a fast link.
constexpr Bytes kMostPerCopy = 32 * kMiB;

// Of profilers; from 1.
std::uint32_t next_category() {
  static std::atomic<std::uint32_t> made{0};
  return ++made;
}

// A view into a trace's names, which are literals and names of graphs: both end with a zero.
std::string_view name_of_copy(const MemoryAccount& device, const std::byte* destination, const std::byte* source) {
  if (!device.contains(source)) return "copy h2d";
  return device.contains(destination) ? "copy" : "copy d2h";
}

// How many rows of `row` bytes, `stride` apart, end within the first `bytes` bytes.
Bytes whole_rows(Bytes bytes, Bytes row, Bytes stride) { return bytes < row ? 0 : (bytes - row) / stride + 1; }

std::string show(SpanLabel label) {
  if (label.layer < 0) return "";
  std::string text = " (layer " + std::to_string(label.layer);
  if (label.microbatch >= 0) text += ", microbatch " + std::to_string(label.microbatch);
  return text + ")";
}

}  // namespace

CudaStream::CudaStream(std::string_view name, std::shared_ptr<DeviceState> state)
    : name_(name),
      category_(next_category()),
      state_(std::move(state)),
      stream_(state_->make_stream()),
      parameters_(*state_->parameters),
      stopwatch_(name_, *state_) {
  name_stream(stream_.get(), category_, name_);
  const std::lock_guard lock(state_->streams_mutex);
  state_->streams.reserve(state_->streams.size() + 1);
  set_trace(state_->trace, state_->origin);
  if (state_->deferred) queue_.emplace(name_, [this](const Entry& entry) { execute(entry); });
  state_->streams.push_back(this);
}

CudaStream::~CudaStream() {
  queue_.reset();
  try {
    wait_for_device();
    read_time();
  } catch (const std::exception& error) {
    log(LogLevel::error, "stream \"" + name_ + "\": " + error.what());
  }
  const std::lock_guard lock(state_->streams_mutex);
  std::erase(state_->streams, this);
}

void CudaStream::enqueue(Command command) {
  Entry entry{std::move(command), {}};
  {
    const std::lock_guard lock(label_mutex_);
    entry.label = label_;
  }
  if (queue_) return queue_->push(std::move(entry));
  execute(entry);
}

void CudaStream::annotate(SpanLabel label) {
  const std::lock_guard lock(label_mutex_);
  label_ = label;
}

void CudaStream::set_trace(Trace* trace, const Origin& origin) {
  if (queue_) queue_->drain();
  state_->select();
  const std::lock_guard lock(time_mutex_);
  stopwatch_.set_trace(trace, origin, stream_.get());
}

double CudaStream::stalled_seconds(WaitReason reason) const {
  {
    const std::lock_guard lock(state_->streams_mutex);
    for (CudaStream* stream : state_->streams) stream->read_time();
  }
  const std::lock_guard lock(time_mutex_);
  return stopwatch_.stalled_seconds(reason);
}

void CudaStream::read_time() {
  state_->select();
  const std::lock_guard lock(time_mutex_);
  stopwatch_.read();
}

void CudaStream::synchronize() {
  if (queue_) queue_->drain();
  wait_for_device();
}

cudaError_t CudaStream::wait_blocking(bool enqueuing) {
  EventHandle done = state_->order_events->take();
  state_->select();
  cudaError_t status = cudaSuccess;
  {
    std::unique_lock lock(mutex_, std::defer_lock);
    if (!enqueuing) lock.lock();
    status = cudaEventRecord(done.get(), stream_.get());
  }
  if (status == cudaSuccess) status = cudaEventSynchronize(done.get());
  state_->order_events->give(std::move(done));
  return status;
}

void CudaStream::wait_for_device() {
  const cudaError_t status = wait_blocking(/*enqueuing=*/false);
  if (status == cudaSuccess) return;
  const std::lock_guard lock(label_mutex_);
  state_->fail("stream \"" + name_ + "\": waiting for work up to \"" + latest_.what + "\"" + show(latest_.label),
               status);
}

void CudaStream::execute(const Entry& entry) {
  const auto& [command, label] = entry;
  std::string_view what = "record";
  try {
    if (const auto* record = std::get_if<RecordCommand>(&command)) return execute(*record);
    state_->select();
    what = "wait";
    if (const auto* wait = std::get_if<WaitCommand>(&command)) return execute(*wait);
    if (state_->failure.failed()) return;
    what = "copy";
    if (const auto* copy = std::get_if<CopyCommand>(&command)) execute(*copy, label);
    if (const auto* copy = std::get_if<RowsCommand>(&command)) execute(*copy, label);
    what = "zero";
    if (const auto* zero = std::get_if<ZeroCommand>(&command)) execute(*zero, label);
    what = "gather";
    if (const auto* gather = std::get_if<GatherCommand>(&command)) execute(*gather, label);
    what = "exchange";
    if (const auto* exchange = std::get_if<ExchangeCommand>(&command)) execute(*exchange, label);
    const auto* launch = std::get_if<LaunchCommand>(&command);
    if (launch == nullptr) return;
    what = launch->executable->program().graph.name;
    execute(*launch, label);
  } catch (const std::exception& error) {
    fail(what, label, error.what());
  }
}

// Records and waits go on after a failure: what was enqueued before it still uses its memory.
void CudaStream::execute(const RecordCommand& record) {
  cudaError_t status = cudaSetDevice(state_->settings.index);
  if (status == cudaSuccess) {
    const std::lock_guard lock(mutex_);
    status = cudaEventRecord(record.moment->event(), stream_.get());
  }
  record.moment->set_recorded();
  check(status, "cudaEventRecord");
}

void CudaStream::execute(const WaitCommand& wait) {
  if (!wait.moment) return;
  if (state_->deferred) wait.moment->wait_until_recorded();
  const std::lock_guard lock(mutex_);
  check(cudaStreamWaitEvent(stream_.get(), wait.moment->event(), 0), "cudaStreamWaitEvent");
  const std::lock_guard time_lock(time_mutex_);
  stopwatch_.waited(stream_.get(), wait.reason);
}

template <typename Enqueue>
void CudaStream::measured(std::string_view what, SpanLabel label, const Enqueue& enqueue) {
  const NvtxRange range(what.data(), category_, label);
  const std::lock_guard lock(mutex_);
  host_memory_awaited_ = false;
  {
    const std::lock_guard label_lock(label_mutex_);
    latest_.what.assign(what);
    latest_.label = label;
  }
  {
    const std::lock_guard time_lock(time_mutex_);
    stopwatch_.begin(stream_.get());
  }
  enqueue();
  const std::lock_guard time_lock(time_mutex_);
  stopwatch_.end(stream_.get(), what, label);
}

void CudaStream::execute(const CopyCommand& copy, SpanLabel label) {
  if (copy.source.size == 0) return;
  measured(name_of_copy(*state_->device_memory, copy.destination.data, copy.source.data), label,
           [&] { copy_whole(copy.destination, copy.source); });
}

void CudaStream::copy_whole(BufferView to_all, BufferView from_all) {
  for (Bytes done = 0; done < from_all.size;) {
    const Bytes left = from_all.size - done;
    const HostRanges::Part to = HostRanges::of_process().front(to_all.slice(done, left));
    const HostRanges::Part from = HostRanges::of_process().front(from_all.slice(done, left));
    const Bytes bytes = std::min({to.bytes, from.bytes, kMostPerCopy});
    const BufferView destination = to_all.slice(done, bytes), source = from_all.slice(done, bytes);
    const bool staged = to.kind == HostRanges::Kind::staged || from.kind == HostRanges::Kind::staged;
    staged ? copy_staged(destination, source) : copy_part(destination, source);
    done += bytes;
  }
}

cudaMemcpyKind CudaStream::kind_of(const std::byte* destination, const std::byte* source) const {
  const bool from_device = state_->device_memory->contains(source);
  const bool to_device = state_->device_memory->contains(destination);
  if (from_device) return to_device ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost;
  return to_device ? cudaMemcpyHostToDevice : cudaMemcpyHostToHost;
}

void CudaStream::copy_part(BufferView destination, BufferView source) {
  const cudaMemcpyKind kind = kind_of(destination.data, source.data);
  check(cudaMemcpyAsync(destination.data, source.data, source.size, kind, stream_.get()), "cudaMemcpyAsync");
}

void CudaStream::execute(const RowsCommand& copy, SpanLabel label) {
  RowCopy left = copy.rows;
  if (left.bytes() == 0) return;
  measured(name_of_copy(*state_->device_memory, left.destination, left.source), label, [&] {
    while (left.rows > 0) {
      const Bytes done = copy_first_rows(left);
      left.destination += done * left.destination_stride;
      left.source += done * left.source_stride;
      left.rows -= done;
    }
  });
}

Bytes CudaStream::copy_first_rows(const RowCopy& rows) {
  const auto from = const_cast<std::byte*>(rows.source);
  const auto extent = [&](Bytes stride) { return (rows.rows - 1) * stride + rows.row; };
  const HostRanges& ranges = HostRanges::of_process();
  const HostRanges::Part to_part = ranges.front({rows.destination, extent(rows.destination_stride)});
  const HostRanges::Part from_part = ranges.front({from, extent(rows.source_stride)});
  const bool staged = to_part.kind == HostRanges::Kind::staged || from_part.kind == HostRanges::Kind::staged;
  const Bytes most = !staged ? kMostPerCopy / rows.row : rows.row <= StagingRing::kBufferBytes ? rows.rows : 1;
  const Bytes count = std::min({whole_rows(to_part.bytes, rows.row, rows.destination_stride),
                                whole_rows(from_part.bytes, rows.row, rows.source_stride), most});
  if (count <= 1) {
    copy_whole({rows.destination, rows.row}, {from, rows.row});
    return 1;
  }
  if (staged) {
    RowCopy first = rows;
    first.rows = count;
    copy_staged(first);
    return count;
  }
  check(cudaMemcpy2DAsync(rows.destination, rows.destination_stride, from, rows.source_stride, rows.row, count,
                          kind_of(rows.destination, from), stream_.get()),
        "cudaMemcpy2DAsync");
  return count;
}

// What comes from the host may be written by commands before this one, which need to be waited for once.
void CudaStream::await_host_memory() {
  if (host_memory_awaited_) return;
  check(wait_blocking(/*enqueuing=*/true), "staged copy");
  host_memory_awaited_ = true;
}

void CudaStream::copy_staged(BufferView destination, BufferView source) {
  if (!ring_) ring_ = std::make_unique<StagingRing>(state_->order_events);
  if (state_->device_memory->contains(source.data)) return ring_->to_host(destination, source, stream_.get());
  await_host_memory();
  if (state_->device_memory->contains(destination.data)) return ring_->to_device(destination, source, stream_.get());
  std::memcpy(destination.data, source.data, source.size);
}

void CudaStream::copy_staged(const RowCopy& rows) {
  if (!ring_) ring_ = std::make_unique<StagingRing>(state_->order_events);
  if (state_->device_memory->contains(rows.source)) return ring_->to_host(rows, stream_.get());
  await_host_memory();
  if (state_->device_memory->contains(rows.destination)) return ring_->to_device(rows, stream_.get());
  copy_here(rows);
}

void CudaStream::execute(const ZeroCommand& zero, SpanLabel label) {
  if (zero.destination.size == 0) return;
  measured("zero", label, [&] {
    check(cudaMemsetAsync(zero.destination.data, 0, zero.destination.size, stream_.get()), "cudaMemsetAsync");
  });
}

void CudaStream::execute(const GatherCommand& gather, SpanLabel label) {
  measured("gather", label, [&] { gather.group->gather(gather.member, gather.whole, stream_.get()); });
}

void CudaStream::execute(const ExchangeCommand& exchange, SpanLabel label) {
  measured("exchange", label,
           [&] { exchange.group->exchange(exchange.member, exchange.sent, exchange.received, stream_.get()); });
}

void CudaStream::execute(const LaunchCommand& launch, SpanLabel label) {
  measured(launch.executable->program().graph.name, label_or(label, launch.parameters), [&] {
    write_parameters(parameters_.get(), launch.parameters, stream_.get());
    launch.executable->enqueue(launch.bindings, parameters_.get(), stream_.get());
  });
}

void CudaStream::fail(std::string_view what, SpanLabel label, const std::string& why) {
  state_->fail(std::make_exception_ptr(
      DeviceError("stream \"" + name_ + "\", \"" + std::string(what) + "\"" + show(label) + ": " + why)));
}

}  // namespace l2l::device::cuda

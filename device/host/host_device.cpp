#include "device/host/host_device.h"

#include "device/host_tensor_group.h"
#include "device/kernels/matmul.h"
#include "device/kernels/tile_product.h"
#include "l2l/errors.h"

namespace l2l::device {
namespace {

HostStream& host(Stream& stream) { return static_cast<HostStream&>(stream); }
HostEvent& host(Event& event) { return static_cast<HostEvent&>(event); }

RowCopy as_row(BufferView destination, BufferView source) {
  const Bytes rows = source.size > 0 ? 1 : 0;
  return {.destination = destination.data, .source = source.data, .row = source.size, .rows = rows};
}

// That our own loops are compiled for.
constexpr const char* instruction_set() {
#if defined(__AVX512F__)
  return "AVX-512";
#elif defined(__AVX2__)
  return "AVX2";
#elif defined(__ARM_NEON)
  return "NEON";
#else
  return "baseline";
#endif
}

}  // namespace

HostDevice::HostDevice(int threads, Bytes link_bandwidth)
    : shared_(std::make_shared<HostShared>(threads, link_bandwidth)) {}

std::string HostDevice::description() const {
  const int threads = shared_->workers.threads();
  return "host (" + std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") +
         std::string(kernels::matmul_library()) + ", " + instruction_set() + (kernels::has_tiles() ? ", AMX)" : ")");
}

bool HostDevice::multiplies_fast(DType dtype) const { return kernels::has_instructions(dtype); }

std::unique_ptr<Buffer> HostDevice::allocate(Bytes size, std::string_view purpose) {
  return map_memory(size, purpose, account_);
}

std::unique_ptr<Buffer> HostDevice::allocate_pinned(Bytes size, std::string_view purpose) {
  return map_memory(size, purpose, nullptr);
}

std::unique_ptr<Stream> HostDevice::create_stream(std::string_view name) {
  return std::make_unique<HostStream>(name, shared_);
}

void HostDevice::record(Event& event, Stream& stream) { host(event).set(host(stream).mark()); }

void HostDevice::wait(Stream& stream, Event& event, WaitReason reason) {
  host(stream).enqueue(WaitCommand{host(event).mark(), reason});
}

void HostDevice::copy(Stream& stream, BufferView destination, BufferView source) {
  require_same_size(destination, source);
  enqueue_copy(stream, as_row(destination, source));
}

void HostDevice::copy_rows(Stream& stream, const RowCopy& rows) { enqueue_copy(stream, rows); }

void HostDevice::enqueue_copy(Stream& stream, const RowCopy& rows) {
  switch (direction(rows.destination, rows.source)) {
    case CopyDirection::to_device:
      return host(stream).enqueue(CopyCommand{rows, &shared_->to_device, "copy h2d"});
    case CopyDirection::to_host:
      return host(stream).enqueue(CopyCommand{rows, &shared_->to_host, "copy d2h"});
    case CopyDirection::within_device:
      return host(stream).enqueue(CopyCommand{rows, nullptr, "copy"});
  }
}

void HostDevice::copy_from_peer(Stream& stream, BufferView destination, BufferView source) {
  require_same_size(destination, source);
  host(stream).enqueue(CopyCommand{as_row(destination, source), nullptr, "copy from peer"});
}

// Anything that leaves host memory counts as going to the device.
CopyDirection HostDevice::direction(const std::byte* destination, const std::byte* source) const {
  if (!account_->contains(source)) return CopyDirection::to_device;
  return account_->contains(destination) ? CopyDirection::within_device : CopyDirection::to_host;
}

void HostDevice::fill_zero(Stream& stream, BufferView destination) { host(stream).enqueue(ZeroCommand{destination}); }

void HostDevice::launch(Stream& stream, const Executable& executable, const Bindings& bindings,
                        const LaunchParameters& parameters) {
  const auto& mine = static_cast<const HostExecutable&>(executable);
  mine.check(bindings);
  host(stream).enqueue(LaunchCommand{&mine, bindings, parameters});
}

void HostDevice::join(const TensorMember& member) {
  if (dynamic_cast<const HostTensorGroup*>(member.group.get()) == nullptr) {
    throw BadInput(description() + " exchanges rows with devices in host memory alone");
  }
  shared_->tensor = member;
}

void HostDevice::synchronize(Event& event) {
  host(event).mark().wait();
  shared_->failure.rethrow();
}

void HostDevice::synchronize(Stream& stream) {
  host(stream).mark().wait();
  shared_->failure.rethrow();
}

std::unique_ptr<Executable> HostDevice::compile(const compiler::Graph& graph) {
  return compile_for_host(graph, shared_->workers.threads(), shared_->tensor);
}

void HostDevice::set_trace(Trace* trace) {
  const std::lock_guard lock(shared_->streams_mutex);
  shared_->trace = trace;
  for (HostStream* stream : shared_->streams) stream->set_trace(trace);
}

void HostDevice::annotate(Stream& stream, int layer, int microbatch) { host(stream).annotate({layer, microbatch}); }

void HostDevice::enqueue_call(Stream& stream, std::function<void()> function) {
  host(stream).enqueue(CallCommand{std::move(function)});
}

}  // namespace l2l::device

#include "device/cuda/cuda_device.h"

#include "device/cuda/cuda_stream.h"
#include "device/cuda/memory.h"
#include "device/kernels/common/check.h"
#include "device/kernels/common/tensor_exchange.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {
namespace {

// What the driver may allocate after a plan was made. Where graphs would take more, kernels are launched one by one.
// Most code is loaded before (runtime/plan/load_code.h).
constexpr LateBytes kLate = {.graphs = 256 * kMiB, .code = 64 * kMiB};
constexpr int kMostGraphNodes = static_cast<int>(kLate.graphs / (10 * kKiB));  // some 10 KiB for each

CudaStream& cuda_of(Stream& stream) { return static_cast<CudaStream&>(stream); }
CudaEvent& cuda_of(Event& event) { return static_cast<CudaEvent&>(event); }

// Runs a kernel, so that a device which this build has no code for is refused before a run begins.
void check_code(const DeviceState& state) {
  const ParameterSlot parameters(*state.parameters);
  const StreamHandle stream = state.make_stream();
  try {
    write_parameters(parameters.get(), {}, stream.get());
    check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  } catch (const DeviceError& error) {
    const std::string_view said = error.what();
    const auto names = [&](const char* status) { return said.find(status) != said.npos; };
    if (!names("NoKernelImageForDevice") && !names("InvalidDeviceFunction") && !names("Ptx")) throw;
    throw BadInput(state.description + " does not run the code of this build (" + error.what() +
                   "); configure with -Dgpu_arch=" + std::to_string(state.context.compute_capability));
  }
}

// A device event with its host time, exact to the length of one wait.
Origin make_origin(const DeviceState& state) {
  const StreamHandle stream = state.make_stream();
  Origin origin{state.timing_events->take(), {}};
  check(cudaEventRecord(origin.event.get(), stream.get()), "cudaEventRecord");
  check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  origin.at = Clock::now();
  return origin;
}

}  // namespace

CudaDevice::CudaDevice(const Settings& settings)
    : state_(std::make_shared<DeviceState>(settings)),
      graphs_(settings.graphs ? std::make_shared<GraphBudget>(kMostGraphNodes) : nullptr) {
  check_code(*state_);
}

std::unique_ptr<Buffer> CudaDevice::allocate(Bytes size, std::string_view purpose) {
  return allocate_device_memory(state_, size, purpose);
}

std::unique_ptr<Buffer> CudaDevice::allocate_pinned(Bytes size, std::string_view purpose) {
  return allocate_pinned_memory(state_, size, purpose);
}

Bytes CudaDevice::other_bytes() const {
  const DeviceState::Memory memory = state_->memory();
  const Bytes used = memory.total - memory.free, ours = allocated_bytes();
  return used > ours ? used - ours : 0;
}

LateBytes CudaDevice::late_bytes() const { return {graphs_ ? kLate.graphs : 0, kLate.code}; }

std::optional<Bytes> CudaDevice::available_bytes() const {
  const Bytes free = state_->memory().free, late = late_bytes().sum();
  return free > late ? free - late : 0;
}

std::unique_ptr<Stream> CudaDevice::create_stream(std::string_view name) {
  return std::make_unique<CudaStream>(name, state_);
}

std::unique_ptr<Event> CudaDevice::create_event() {
  state_->select();
  return std::make_unique<CudaEvent>(state_->order_events);
}

void CudaDevice::record(Event& event, Stream& stream) {
  state_->select();
  cuda_of(stream).enqueue(RecordCommand{cuda_of(event).begin_record(/*anew=*/state_->deferred)});
}

void CudaDevice::wait(Stream& stream, Event& event, WaitReason reason) {
  cuda_of(stream).enqueue(WaitCommand{cuda_of(event).moment(), reason});
}

void CudaDevice::copy(Stream& stream, BufferView destination, BufferView source) {
  require_same_size(destination, source);
  cuda_of(stream).enqueue(CopyCommand{destination, source});
}

void CudaDevice::copy_rows(Stream& stream, const RowCopy& rows) {
  const bool packed = rows.destination_stride == rows.row && rows.source_stride == rows.row;
  if (!packed) return cuda_of(stream).enqueue(RowsCommand{rows});
  copy(stream, {rows.destination, rows.bytes()}, {const_cast<std::byte*>(rows.source), rows.bytes()});
}

void CudaDevice::fill_zero(Stream& stream, BufferView destination) {
  cuda_of(stream).enqueue(ZeroCommand{destination});
}

void CudaDevice::launch(Stream& stream, const Executable& executable, const Bindings& bindings,
                        const LaunchParameters& parameters) {
  const auto& mine = static_cast<const CudaExecutable&>(executable);
  mine.check(bindings);
  cuda_of(stream).enqueue(LaunchCommand{&mine, bindings, parameters});
}

void CudaDevice::join(const TensorMember& member) {
  if (dynamic_cast<const GpuTensorGroup*>(member.group.get()) == nullptr) {
    throw BadInput(description() + " exchanges rows with GPUs alone");
  }
  state_->tensor = member;
}

void CudaDevice::synchronize(Event& event) {
  if (const std::shared_ptr<Moment> moment = cuda_of(event).moment()) {
    state_->select();
    if (state_->deferred) moment->wait_until_recorded();
    const cudaError_t status = cudaEventSynchronize(moment->event());
    if (status != cudaSuccess) state_->fail("waiting for an event", status);
  }
  state_->failure.rethrow();
}

void CudaDevice::synchronize(Stream& stream) {
  cuda_of(stream).synchronize();
  state_->failure.rethrow();
}

std::unique_ptr<Executable> CudaDevice::compile(const compiler::Graph& graph) {
  state_->select();
  return compile_for_cuda(state_->context, graph, graphs_, state_->tensor);
}

void CudaDevice::set_trace(Trace* trace) {
  state_->select();
  const std::lock_guard lock(state_->streams_mutex);
  if (trace) state_->origin = make_origin(*state_);
  state_->trace = trace;
  for (CudaStream* stream : state_->streams) stream->set_trace(trace, state_->origin);
}

void CudaDevice::annotate(Stream& stream, int layer, int microbatch) { cuda_of(stream).annotate({layer, microbatch}); }

}  // namespace l2l::device::cuda

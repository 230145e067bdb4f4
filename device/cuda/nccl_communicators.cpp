#include "device/cuda/nccl_communicators.h"

#include <chrono>
#include <utility>

#include "core/back_off.h"
#include "core/run_at_once.h"
#include "device/kernels/common/check.h"
#include "device/kernels/common/handle.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {

NcclCommunicators::NcclCommunicators(const NcclLibrary& nccl, std::vector<int> devices)
    : nccl_(nccl), devices_(std::move(devices)), communicators_(devices_.size()) {
  try {
    connect();
    connected_ = true;
  } catch (...) {
    end(nccl_.comm_abort);
    throw;
  }
}

std::string NcclCommunicators::description() const {
  int version = 0;
  nccl_.get_version(&version);
  return "NCCL " + nccl_version(version);
}

void NcclCommunicators::connect() {
  ncclUniqueId id;
  check_nccl(0, nccl_.get_unique_id(&id), "ncclGetUniqueId");
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclResult_t status = nccl_.group_start();
  for (std::size_t i = 0; i < devices_.size() && (status == ncclSuccess || status == ncclInProgress); ++i) {
    status = cudaSetDevice(devices_[i]) == cudaSuccess
                 ? nccl_.comm_init(&communicators_[i], count(), id, static_cast<int>(i), &config)
                 : ncclUnhandledCudaError;
  }
  const ncclResult_t ended = nccl_.group_end();
  if (status == ncclSuccess || status == ncclInProgress) status = ended;
  for (int member = 0; member < count(); ++member) finish(member, status, "ncclCommInitRankConfig");
}

void NcclCommunicators::make_first(PeerCall call) {
  const auto make = [&](std::size_t member) {
    constexpr std::size_t kSlice = 256;
    const std::size_t size = devices_.size() * kSlice;
    check(cudaSetDevice(devices_[member]), "cudaSetDevice");
    std::byte* memory = nullptr;
    cudaStream_t made = nullptr;
    check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    const StreamHandle stream(made);
    check(cudaMalloc(reinterpret_cast<void**>(&memory), 2 * size), "cudaMalloc");
    const DeviceMemory freed(memory);
    check(cudaMemsetAsync(memory, 0, 2 * size, made), "cudaMemsetAsync");
    if (call == PeerCall::all_gather) {
      all_gather(static_cast<int>(member), memory, memory + size, kSlice, made);
    } else {
      exchange(static_cast<int>(member), {0, count(), memory, kSlice, memory + size, kSlice}, made);
    }
    check(cudaStreamSynchronize(made), "cudaStreamSynchronize");
  };
  run_at_once(devices_.size(), make, [this](std::exception_ptr cause) { abort(std::move(cause)); });
}

void NcclCommunicators::all_gather(int member, const std::byte* given, std::byte* whole, Bytes slice,
                                   cudaStream_t stream) {
  finish(member, ncclInProgress, "an earlier call of NCCL");
  ncclResult_t status = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    status = nccl_.all_gather(given, whole, slice, ncclUint8, communicator(member), stream);
  }
  finish(member, status, "ncclAllGather");
}

// A group of sends and receives, which NCCL makes one call of: an all-to-all of any of its versions.
void NcclCommunicators::exchange(int member, const Slices& slices, cudaStream_t stream) {
  finish(member, ncclInProgress, "an earlier call of NCCL");
  ncclResult_t status = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    ncclComm_t const own = communicator(member);
    const auto note = [&](ncclResult_t of_call) {
      if (status == ncclSuccess || status == ncclInProgress) status = of_call;
    };
    note(nccl_.group_start());
    for (int i = 0; i < slices.count; ++i) {
      const auto k = static_cast<Bytes>(i);
      const int peer = slices.first + i;
      note(nccl_.send(slices.sent + k * slices.sent_stride, slices.slice, ncclUint8, peer, own, stream));
      note(nccl_.receive(slices.received + k * slices.slice, slices.slice, ncclUint8, peer, own, stream));
    }
    note(nccl_.group_end());
  }
  finish(member, status, "ncclSend and ncclRecv");
}

void NcclCommunicators::require_alive(int member) {
  const std::lock_guard lock(mutex_);
  static_cast<void>(communicator(member));
}

ncclComm_t& NcclCommunicators::communicator(int member) {
  if (!communicators_.empty()) return communicators_[static_cast<std::size_t>(member)];
  if (cause_) std::rethrow_exception(cause_);
  throw DeviceError("an exchange of devices was aborted: another device has failed");
}

void NcclCommunicators::abort(std::exception_ptr cause) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!communicators_.empty()) cause_ = std::move(cause);
  }
  end(nccl_.comm_abort);
}

// Asks often at first: most calls are carried out at once, and a sleep takes longer than they do.
void NcclCommunicators::finish(int member, ncclResult_t status, const char* what) {
  for (int times = 0; status == ncclInProgress; ++times) {
    {
      const std::lock_guard lock(mutex_);
      check_nccl(member, nccl_.comm_get_async_error(communicator(member), &status), "ncclCommGetAsyncError");
    }
    if (status != ncclInProgress) break;
    back_off(times, std::chrono::microseconds(10));
  }
  check_nccl(member, status, what);
}

void NcclCommunicators::check_nccl(int member, ncclResult_t status, const char* what) {
  if (status == ncclSuccess) return;
  std::string message = std::string(what) + ": " + nccl_.get_error_string(status);
  const char* const more = nccl_.get_last_error(nullptr);
  if (more != nullptr && *more != '\0') message += " (" + std::string(more) + ")";
  throw DeviceError(message + ", of device " + std::to_string(devices_[static_cast<std::size_t>(member)]));
}

// In a group: NCCL lets each wait for the others.
void NcclCommunicators::end(ncclResult_t (*end_one)(ncclComm_t)) noexcept {
  const std::lock_guard lock(mutex_);
  if (communicators_.empty()) return;
  nccl_.group_start();
  for (const ncclComm_t communicator : communicators_) {
    if (communicator != nullptr) end_one(communicator);
  }
  nccl_.group_end();
  communicators_.clear();
}

}  // namespace l2l::device::cuda

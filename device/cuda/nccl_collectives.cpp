#include "device/cuda/nccl_collectives.h"

#include <chrono>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "device/cuda/cuda_stream.h"
#include "device/cuda/nccl_library.h"
#include "device/kernels/common/check.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {
namespace {

// 22809: "2.28.9".
std::string nccl_version(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

// Communicators do not block: a call that waits for the other devices (the first one connects them) goes on by itself,
// and is asked for, so that abort() need not wait for it.
class NcclPeers final : public Peers, public PeerCalls {
 public:
  NcclPeers(const NcclLibrary& nccl, std::span<const int> devices)
      : nccl_(nccl), devices_(devices.begin(), devices.end()), communicators_(devices.size()) {}
  ~NcclPeers() override { end(connected_ ? nccl_.comm_destroy : nccl_.comm_abort); }

  // Throws DeviceError.
  void connect();
  // Of all members: NCCL takes memory for a kind of call when it is made first. Throws DeviceError.
  void make_first(PeerCall call);

  std::string description() const override {
    int version = 0;
    nccl_.get_version(&version);
    return "NCCL " + nccl_version(version);
  }
  int count() const override { return static_cast<int>(devices_.size()); }
  void all_gather(int member, Stream& stream, BufferView whole) override {
    expect(member, whole);
    static_cast<CudaStream&>(stream).enqueue(GatherCommand{this, member, whole});
  }
  void all_to_all(int member, Stream& stream, BufferView sent, BufferView received) override {
    expect(member, sent);
    if (received.size != sent.size) throw_size(received);
    static_cast<CudaStream&>(stream).enqueue(ExchangeCommand{this, member, sent, received});
  }
  void gather(int member, BufferView whole, cudaStream_t stream) override;
  void exchange(int member, BufferView sent, BufferView received, cudaStream_t stream) override;
  void abort() noexcept override { end(nccl_.comm_abort); }

 private:
  // Throws Error where the bytes are not divisible, and DeviceError after abort().
  void expect(int member, BufferView whole);
  [[noreturn]] void throw_size(BufferView whole) const {
    throw Error("exchange among " + std::to_string(count()) + " devices of " + std::to_string(whole.size) + " bytes");
  }
  // Called under mutex_. Throws DeviceError after abort().
  ncclComm_t& communicator(int member);
  // Waits until a member's last call, which returned `status`, has been carried out. Throws DeviceError.
  void finish(int member, ncclResult_t status, const char* what);
  void check_nccl(int member, ncclResult_t status, const char* what);
  void end(ncclResult_t (*end_one)(ncclComm_t)) noexcept;

  const NcclLibrary& nccl_;
  const std::vector<int> devices_;
  bool connected_ = false;                 // constant after connect()
  std::mutex mutex_;                       // held for each call of a communicator, all of which return at once
  std::vector<ncclComm_t> communicators_;  // empty after the end; guarded by mutex_
};

void NcclPeers::connect() {
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
  connected_ = true;
}

void NcclPeers::make_first(PeerCall call) {
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
      gather(static_cast<int>(member), {memory, size}, made);
    } else {
      exchange(static_cast<int>(member), {memory, size}, {memory + size, size}, made);
    }
    check(cudaStreamSynchronize(made), "cudaStreamSynchronize");
  };
  std::vector<std::future<void>> members;
  for (std::size_t i = 0; i < devices_.size(); ++i) members.push_back(std::async(std::launch::async, make, i));
  std::exception_ptr failed;
  for (std::future<void>& member : members) {
    try {
      member.get();
    } catch (...) {
      if (!failed) failed = std::current_exception();
      abort();  // or the others would wait for it
    }
  }
  if (failed) std::rethrow_exception(failed);
}

void NcclPeers::expect(int member, BufferView whole) {
  if (whole.size % devices_.size() != 0) throw_size(whole);
  const std::lock_guard lock(mutex_);
  static_cast<void>(communicator(member));
}

void NcclPeers::gather(int member, BufferView whole, cudaStream_t stream) {
  constexpr const char* kCall = "ncclAllGather";
  finish(member, ncclInProgress, "an earlier call of NCCL");
  const std::size_t slice = whole.size / devices_.size();
  ncclResult_t status = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    status = nccl_.all_gather(whole.data + static_cast<std::size_t>(member) * slice, whole.data, slice, ncclUint8,
                              communicator(member), stream);
  }
  finish(member, status, kCall);
}

// A group of sends and receives, which NCCL makes one call of: an all-to-all of any of its versions.
void NcclPeers::exchange(int member, BufferView sent, BufferView received, cudaStream_t stream) {
  finish(member, ncclInProgress, "an earlier call of NCCL");
  const std::size_t slice = sent.size / devices_.size();
  ncclResult_t status = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    ncclComm_t const own = communicator(member);
    const auto note = [&](ncclResult_t of_call) {
      if (status == ncclSuccess || status == ncclInProgress) status = of_call;
    };
    note(nccl_.group_start());
    for (int peer = 0; peer < count(); ++peer) {
      const std::size_t begin = static_cast<std::size_t>(peer) * slice;
      note(nccl_.send(sent.data + begin, slice, ncclUint8, peer, own, stream));
      note(nccl_.receive(received.data + begin, slice, ncclUint8, peer, own, stream));
    }
    note(nccl_.group_end());
  }
  finish(member, status, "ncclSend and ncclRecv");
}

ncclComm_t& NcclPeers::communicator(int member) {
  if (communicators_.empty()) throw DeviceError("an exchange of devices was aborted: another device has failed");
  return communicators_[static_cast<std::size_t>(member)];
}

void NcclPeers::finish(int member, ncclResult_t status, const char* what) {
  constexpr auto kPause = std::chrono::microseconds(10);
  while (status == ncclInProgress) {
    {
      const std::lock_guard lock(mutex_);
      check_nccl(member, nccl_.comm_get_async_error(communicator(member), &status), "ncclCommGetAsyncError");
    }
    if (status == ncclInProgress) std::this_thread::sleep_for(kPause);
  }
  check_nccl(member, status, what);
}

void NcclPeers::check_nccl(int member, ncclResult_t status, const char* what) {
  if (status == ncclSuccess) return;
  std::string message = std::string(what) + ": " + nccl_.get_error_string(status);
  const char* const more = nccl_.get_last_error(nullptr);
  if (more != nullptr && *more != '\0') message += " (" + std::string(more) + ")";
  throw DeviceError(message + ", of device " + std::to_string(devices_[static_cast<std::size_t>(member)]));
}

// In a group: NCCL lets each wait for the others.
void NcclPeers::end(ncclResult_t (*end_one)(ncclComm_t)) noexcept {
  const std::lock_guard lock(mutex_);
  if (communicators_.empty()) return;
  nccl_.group_start();
  for (const ncclComm_t communicator : communicators_) {
    if (communicator != nullptr) end_one(communicator);
  }
  nccl_.group_end();
  communicators_.clear();
}

}  // namespace

std::unique_ptr<Peers> make_nccl_peers(std::span<const int> devices, PeerCall call, std::string& reason) {
  const NcclLibrary* const nccl = nccl_library(reason);
  if (nccl == nullptr) return nullptr;
  try {
    auto peers = std::make_unique<NcclPeers>(*nccl, devices);
    peers->connect();
    peers->make_first(call);
    return peers;
  } catch (const DeviceError& error) {
    reason = std::string("NCCL refuses: ") + error.what();
    return nullptr;
  }
}

}  // namespace l2l::device::cuda

// NCCL among the GPUs of a process: a communicator for each of them.
#pragma once

#include <cuda_runtime_api.h>

#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "device/cuda/nccl_library.h"
#include "device/peers.h"

namespace l2l::device::cuda {

// Communicators do not block: a call that waits for the other devices (the first one connects them) goes on by itself,
// and is asked for, so that abort() need not wait for it. Each member is used by one thread at a time; abort() by any.
class NcclCommunicators {
 public:
  // Of these devices, as the CUDA runtime counts them. Throws DeviceError.
  NcclCommunicators(const NcclLibrary& nccl, std::vector<int> devices);
  ~NcclCommunicators() { end(connected_ ? nccl_.comm_destroy : nccl_.comm_abort); }
  NcclCommunicators(const NcclCommunicators&) = delete;
  NcclCommunicators& operator=(const NcclCommunicators&) = delete;

  // "NCCL 2.28.9"
  std::string description() const;
  int count() const { return static_cast<int>(devices_.size()); }
  // Of all members: NCCL takes memory for a kind of call when it is made first. Throws DeviceError.
  void make_first(PeerCall call);

  // Put a member's part into a stream of its device. Throw DeviceError, and after abort() its cause.
  // Slice k of `whole` becomes what member k gives, which may be its own slice of `whole`.
  void all_gather(int member, const std::byte* given, std::byte* whole, Bytes slice, cudaStream_t stream);
  // Of `count` members from `first` on, the k-th gets the slice that lies k times `sent_stride` behind `sent`; slice k
  // of `received`, apart from them, comes from there.
  struct Slices {
    int first, count;
    const std::byte* sent;
    Bytes sent_stride;
    std::byte* received;
    Bytes slice;
  };
  void exchange(int member, const Slices& slices, cudaStream_t stream);

  // Throws as calls do after abort().
  void require_alive(int member);
  // Calls in progress and later ones throw `cause`, without one a DeviceError, and what is enqueued ends with undefined
  // contents. Only the first call counts.
  void abort(std::exception_ptr cause = nullptr) noexcept;

 private:
  // Called under mutex_. Throws as calls do after abort().
  ncclComm_t& communicator(int member);
  void connect();
  // Waits until a member's last call, which returned `status`, has been carried out. Throws DeviceError.
  void finish(int member, ncclResult_t status, const char* what);
  void check_nccl(int member, ncclResult_t status, const char* what);
  void end(ncclResult_t (*end_one)(ncclComm_t)) noexcept;

  const NcclLibrary& nccl_;
  const std::vector<int> devices_;
  bool connected_ = false;                 // constant after construction
  std::mutex mutex_;                       // held for each call of a communicator, all of which return at once
  std::vector<ncclComm_t> communicators_;  // empty after the end; guarded by mutex_
  std::exception_ptr cause_;               // guarded by mutex_
};

}  // namespace l2l::device::cuda

// The devices of a process as a group, which exchange slices of their memory.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "device/device.h"

namespace l2l::device {

// Each member is used by one thread at a time; abort() by any. Members are numbered as the devices that the group was
// made of.
class Peers {
 public:
  virtual ~Peers() = default;
  // "NCCL 2.28.9"
  virtual std::string description() const = 0;
  virtual int count() const = 0;

  // Enqueues on `stream`, of that member's device. Slice k of `whole` is the k-th of count() equal parts; what was
  // enqueued so far has brought the member's own, and what is enqueued later finds all of them. All members make the
  // same calls, of the same sizes, in the same order; a call may block until the others have made theirs. Throws
  // DeviceError after abort(), and Error where a size is not divisible, or, in host memory, not that of the others.
  virtual void all_gather(int member, Stream& stream, BufferView whole) = 0;
  // The same, but slice k of `sent` goes to member k, and slice k of `received`, as large and apart from it, comes from
  // there; the member's own is copied. What is enqueued later may overwrite `sent`.
  virtual void all_to_all(int member, Stream& stream, BufferView sent, BufferView received) = 0;

  // For a run that has failed on some device, for which the others would wait for ever: calls in progress and later
  // ones throw, and what is enqueued ends with undefined contents.
  virtual void abort() noexcept = 0;
};

// A group of these devices, which must outlive it. nullptr where they cannot exchange: `reason`, a clause for people,
// says why. Calls of one group are in one order; threads that do not agree on it have a group each. `call`: what it is
// for, which GPUs make once, so that what they take for it is no longer free.
enum class PeerCall : std::uint8_t { all_gather, all_to_all };
std::unique_ptr<Peers> make_peers(std::span<Device* const> devices, PeerCall call, std::string& reason);

// Of devices of the CUDA module.
std::unique_ptr<Peers> make_cuda_peers(std::span<Device* const> devices, PeerCall call, std::string& reason);

}  // namespace l2l::device

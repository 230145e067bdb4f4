// Commands of a CUDA stream, of fixed size: the queue of a deferred stream holds them in place.
#pragma once

#include <memory>
#include <variant>

#include "device/cuda/cuda_executable.h"
#include "device/cuda/event.h"
#include "device/device.h"
#include "device/stream_track.h"

namespace l2l::device::cuda {

struct RecordCommand {
  std::shared_ptr<Moment> moment;
};

struct WaitCommand {
  std::shared_ptr<Moment> moment;
  WaitReason reason;
};

struct CopyCommand {
  BufferView destination, source;
};

struct RowsCommand {
  RowCopy rows;
};

struct ZeroCommand {
  BufferView destination;
};

// Puts a member's part of an exchange (device/peers.h) into a stream. They throw DeviceError.
class PeerCalls {
 public:
  virtual void gather(int member, BufferView whole, cudaStream_t stream) = 0;
  virtual void exchange(int member, BufferView sent, BufferView received, cudaStream_t stream) = 0;

 protected:
  ~PeerCalls() = default;
};

struct GatherCommand {
  PeerCalls* group;
  int member;
  BufferView whole;
};

struct ExchangeCommand {
  PeerCalls* group;
  int member;
  BufferView sent, received;
};

struct LaunchCommand {
  const CudaExecutable* executable;
  Bindings bindings;
  LaunchParameters parameters;
};

using Command = std::variant<std::monostate, RecordCommand, WaitCommand, CopyCommand, RowsCommand, ZeroCommand,
                             GatherCommand, ExchangeCommand, LaunchCommand>;

struct Entry {
  Command command;
  SpanLabel label;
};

}  // namespace l2l::device::cuda

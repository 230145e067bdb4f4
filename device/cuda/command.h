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

struct ZeroCommand {
  BufferView destination;
};

// Puts a member's part of a gather (device/peers.h) into a stream. Throws DeviceError.
class Gatherer {
 public:
  virtual void gather(int member, BufferView whole, cudaStream_t stream) = 0;

 protected:
  ~Gatherer() = default;
};

struct GatherCommand {
  Gatherer* group;
  int member;
  BufferView whole;
};

struct LaunchCommand {
  const CudaExecutable* executable;
  Bindings bindings;
  LaunchParameters parameters;
};

using Command =
    std::variant<std::monostate, RecordCommand, WaitCommand, CopyCommand, ZeroCommand, GatherCommand, LaunchCommand>;

struct Entry {
  Command command;
  SpanLabel label;
};

}  // namespace l2l::device::cuda

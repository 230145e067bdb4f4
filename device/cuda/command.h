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

struct LaunchCommand {
  const CudaExecutable* executable;
  Bindings bindings;
  LaunchParameters parameters;
};

using Command = std::variant<std::monostate, RecordCommand, WaitCommand, CopyCommand, ZeroCommand, LaunchCommand>;

struct Entry {
  Command command;
  SpanLabel label;
};

}  // namespace l2l::device::cuda

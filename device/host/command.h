// Commands of a host stream, of fixed size: the stream's queue holds them in place.
#pragma once

#include <chrono>
#include <exception>
#include <string_view>
#include <variant>

#include "device/device.h"
#include "device/host/host_executable.h"
#include "device/host/link_clock.h"
#include "device/host/progress.h"

namespace l2l::device {

struct WaitCommand {
  Mark mark;
  WaitReason reason;
};

struct CopyCommand {
  BufferView destination, source;
  LinkClock* link;        // nullptr: it crosses no link
  std::string_view name;  // in the trace
};

struct ZeroCommand {
  BufferView destination;
};

struct LaunchCommand {
  const HostExecutable* executable;
  Bindings bindings;
  LaunchParameters parameters;
};

// For tests (tests/support/fault_device.h).
struct DelayCommand {
  std::chrono::microseconds duration;
};
struct FailCommand {
  std::exception_ptr error;
};

using Command =
    std::variant<std::monostate, WaitCommand, CopyCommand, ZeroCommand, LaunchCommand, DelayCommand, FailCommand>;

}  // namespace l2l::device

// The interface between the runtime and whatever computes. Work is enqueued on a stream and ordered by events alone;
// there are no callbacks on streams. Nothing above device/ knows which backend runs: host/, cuda/, paced/ (models time
// and computes nothing) or a wrapper (forwarding_device.h). All pass one conformance suite (tests/conformance/device).
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/ir/graph.h"
#include "compiler/memory/program.h"
#include "core/bytes.h"
#include "core/dropout.h"
#include "core/kernel_choices.h"

namespace l2l {
class Trace;
}

namespace l2l::device {

struct TensorMember;

// Why a stream waits: its idle time up to the end of the wait counts towards this reason.
enum class WaitReason : std::uint8_t { order, weights, stash, gradients, count };

// A range of memory that somebody else owns.
struct BufferView {
  std::byte* data = nullptr;
  Bytes size = 0;

  // The range [offset, offset + bytes) of this one; asserts that it lies inside.
  BufferView slice(Bytes offset, Bytes bytes) const;
};

// Of a copy. Throws Error.
void require_same_size(BufferView destination, BufferView source);

// Rows of `row` bytes each, that far apart.
struct RowCopy {
  std::byte* destination = nullptr;
  Bytes destination_stride = 0;
  const std::byte* source = nullptr;
  Bytes source_stride = 0;
  Bytes row = 0, rows = 0;

  Bytes bytes() const { return row * rows; }
};

// Memory of a device, or page-locked memory of the host. Owned; freed by the destructor, which never throws.
class Buffer {
 public:
  virtual ~Buffer() = default;
  BufferView view() const { return view_; }

 protected:
  explicit Buffer(BufferView view) : view_(view) {}
  BufferView view_;
};

// A FIFO of work. Destroying a stream waits for its work. Thread-safe: each enqueue is atomic.
class Stream {
 public:
  virtual ~Stream() = default;
  // Seconds since construction that this stream was idle before the end of waits with `reason`, as far as the device
  // has come. Also brings the trace of all streams up to that point. Thread-safe.
  virtual double stalled_seconds(WaitReason reason) const = 0;
};

// A point in a stream. Like a CUDA event: wait() and synchronize() refer to the latest record() before them, and
// return at once when there was none. May be recorded again.
class Event {
 public:
  virtual ~Event() = default;
};

// What varies between launches of one program. On a GPU it lies in device memory, so that CUDA graphs can be replayed.
struct LaunchParameters {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t layer = 0;  // stable id of the layer: part of the random numbers' key
  std::uint32_t microbatch = 0;
  bool training = true;  // false: dropout is the identity
  DropoutMasks dropout_masks = kNewestDropoutMasks;
  std::int64_t first_token = 0;  // where the layer is a chunk of a table: token of the chunk's first row
  float loss_scale = 1;          // gradient of the loss sum: 1 / predicted tokens of the minibatch
};

// The memory behind each region for one run of a program. Regions that the program does not use may be empty.
struct Bindings {
  std::array<BufferView, static_cast<std::size_t>(compiler::Region::count)> regions{};
  BufferView& operator[](compiler::Region region) { return regions[static_cast<std::size_t>(region)]; }
  const BufferView& operator[](compiler::Region region) const { return regions[static_cast<std::size_t>(region)]; }
};

// A program made ready for one device (kernels chosen, library primitives created, workspaces planned). Immutable.
class Executable {
 public:
  virtual ~Executable() = default;
  const compiler::Program& program() const { return program_; }
  // What a run gets from the other devices over which a layer is split.
  Bytes received_bytes() const { return received_bytes_; }
  // Throws Error that names a region which is too small for the program.
  void check(const Bindings& bindings) const;

 protected:
  static constexpr std::size_t kMostOperands = 16;

  // What the kernel of a launch gets: inputs, then outputs; `workspace` is nullptr where it needs none.
  struct Arguments {
    std::array<std::byte*, kMostOperands> addresses;
    std::size_t count;
    std::byte* workspace;
    std::span<std::byte* const> operands() const { return {addresses.data(), count}; }
  };

  // Throws Error when a launch has more than kMostOperands operands.
  explicit Executable(compiler::Program program);
  // Throws Error unless there are as many kernels as launches.
  void require_kernels(std::size_t count) const;
  static Arguments arguments_of(const compiler::Launch& launch, const Bindings& bindings);
  // What the program needs of a region.
  Bytes region_bytes(std::size_t region) const { return region_bytes_[region]; }

  compiler::Program program_;

 private:
  std::array<Bytes, static_cast<std::size_t>(compiler::Region::count)> region_bytes_{};
  Bytes received_bytes_;
};

// Device memory that the driver takes after a run was planned.
struct LateBytes {
  Bytes graphs = 0;  // launches that were recorded
  Bytes code = 0;    // kernels that first run only then, and streams

  Bytes sum() const { return graphs + code; }
};

// Thread-safe, unless a function says otherwise. A failure of enqueued work is stored: later work on the device is
// skipped, events complete nevertheless (nothing hangs), and every synchronize() rethrows it.
class Device {
 public:
  virtual ~Device() = default;

  // "host (2 threads, oneDNN, AVX-512)"
  virtual std::string description() const = 0;
  // Whether products of this type take no longer than those of fp32.
  virtual bool multiplies_fast(DType) const { return true; }
  // Whether device memory is host memory (and counts there, too).
  virtual bool uses_host_memory() const = 0;
  // NUMA node of the host that is nearest to the device; -1: unknown, or none is nearer.
  virtual int numa_node() const { return -1; }

  // Throws OutOfMemory naming `purpose`. Contents are undefined.
  virtual std::unique_ptr<Buffer> allocate(Bytes size, std::string_view purpose) = 0;
  // Zeroed host memory that copies can read and write directly; page-locked where the device needs it. Every page is
  // touched before this returns.
  virtual std::unique_ptr<Buffer> allocate_pinned(Bytes size, std::string_view purpose) = 0;
  // Bytes handed out by allocate() and still alive, and their peak.
  virtual Bytes allocated_bytes() const = 0;
  virtual Bytes peak_bytes() const = 0;
  // Device memory held by others now: by the driver (context, code, graphs) and by other processes.
  virtual Bytes other_bytes() const { return 0; }
  // What plans leave to the driver for later.
  virtual LateBytes late_bytes() const { return {}; }
  // Bytes that allocate() can still hand out, less late_bytes(). Empty where no bound is known: devices in host memory,
  // which the host's own budget covers.
  virtual std::optional<Bytes> available_bytes() const { return std::nullopt; }

  virtual std::unique_ptr<Stream> create_stream(std::string_view name) = 0;
  virtual std::unique_ptr<Event> create_event() = 0;

  // Enqueues on `stream`; returns before it happened.
  virtual void record(Event& event, Stream& stream) = 0;
  virtual void wait(Stream& stream, Event& event, WaitReason reason = WaitReason::order) = 0;
  // Enqueues on `stream`; `source` and `destination` (same size) must stay alive and untouched until it is done. A copy
  // crosses the link (`link_bandwidth` applies) unless both ends lie in device memory.
  virtual void copy(Stream& stream, BufferView destination, BufferView source) = 0;
  // The same of many rows.
  virtual void copy_rows(Stream& stream, const RowCopy& rows);
  // The same where `source` lies in the memory of another device in host memory (device/peers.h), and `destination` in
  // this one's: crosses no link of the host. Events of that device may be waited for on this one's streams.
  virtual void copy_from_peer(Stream& stream, BufferView destination, BufferView source) {
    copy(stream, destination, source);
  }
  virtual void fill_zero(Stream& stream, BufferView destination) = 0;
  // Enqueues one run of `executable` (made by this device). Bindings and parameters are copied.
  virtual void launch(Stream& stream, const Executable& executable, const Bindings& bindings,
                      const LaunchParameters& parameters) = 0;

  // Programs compiled from now on may have shares of split layers (compiler::Shard), which they compute together with
  // the group's other members (device/tensor_group.h). While it is idle, and on the thread that compiles; programs that
  // are there already stay in the group that they were compiled for. Throws BadInput where the device cannot.
  virtual void join(const TensorMember& member);

  // Waits on the calling thread. Rethrows a stored failure.
  virtual void synchronize(Event& event) = 0;
  virtual void synchronize(Stream& stream) = 0;

  // Plans and prepares `graph`. Slow: not for the step loop. Throws BadInput when an op has no kernel here.
  virtual std::unique_ptr<Executable> compile(const compiler::Graph& graph) = 0;

  // What was chosen by time for the programs compiled so far, under the name of this device and its library. Without
  // that name: nothing is chosen so.
  virtual KernelChoices kernel_choices() const { return {}; }
  // Programs compiled from now on use these where they are for this device; what is missing is still chosen by time.
  // Throws BadInput that names the one which cannot be read, and takes none.
  virtual void take_kernel_choices(const KernelChoices&) {}

  // Records spans of streams to `trace` from now on (nullptr: none). Call while idle.
  virtual void set_trace(Trace* trace) = 0;
  // For traces: what is enqueued on `stream` from now on belongs to layer `layer` (its place in the relay) and
  // microbatch `microbatch` (-1: none). Before the first call, launches are labelled by their parameters, copies not.
  virtual void annotate(Stream& stream, int layer, int microbatch) = 0;
};

}  // namespace l2l::device

// A device that misbehaves to order: it wraps the host device, for tests of what runs on top.
#pragma once

#include <chrono>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "device/host/host_device.h"

namespace l2l::device {

// What goes wrong, and when. Calls are counted from 0 since the plan was set; kNever and kEvery stand for no call and
// for all of them. Delays are drawn from [0, limit] by `seed` and pass on the stream, not on the caller.
struct FaultPlan {
  static constexpr std::int64_t kNever = -1;
  static constexpr std::int64_t kEvery = std::numeric_limits<std::int64_t>::max();

  std::uint64_t seed = 1;

  WaitReason skipped_reason = WaitReason::order;
  std::int64_t skip_wait = kNever;  // among the waits of skipped_reason

  std::chrono::microseconds copy_h2d_delay{0};
  std::chrono::microseconds copy_d2h_delay{0};
  std::chrono::microseconds launch_delay{0};

  std::int64_t fail_copy = kNever;        // DeviceError on the stream
  std::int64_t fail_launch = kNever;      // DeviceError on the stream
  std::int64_t fail_allocation = kNever;  // OutOfMemory, device and pinned memory counted together

  // Launches of the program with this name do nothing; at microbatch `drop_microbatch`, or at all (kEvery).
  std::optional<std::string> drop_program;
  std::int64_t drop_microbatch = kEvery;

  bool poison = false;  // device memory is filled with 0xFF when it is allocated and before it is freed
};

// How often something was made to go wrong: a twin shows that its fault took place.
struct FaultCounts {
  std::int64_t skipped_waits = 0;
  std::int64_t delays = 0;
  std::int64_t failures = 0;
  std::int64_t dropped_launches = 0;
};

// Thread-safe. Its streams, events and executables are those of the device it wraps.
class FaultDevice : public Device {
 public:
  FaultDevice(std::unique_ptr<HostDevice> inner, FaultPlan plan);

  // Replaces the plan and sets all counts to 0.
  void set_plan(FaultPlan plan);
  FaultCounts counts() const;

  std::string description() const override;
  bool uses_host_memory() const override { return inner_->uses_host_memory(); }
  int numa_node() const override { return inner_->numa_node(); }
  std::unique_ptr<Buffer> allocate(Bytes size, std::string_view purpose) override;
  std::unique_ptr<Buffer> allocate_pinned(Bytes size, std::string_view purpose) override;
  Bytes allocated_bytes() const override { return inner_->allocated_bytes(); }
  Bytes peak_bytes() const override { return inner_->peak_bytes(); }
  std::unique_ptr<Stream> create_stream(std::string_view name) override { return inner_->create_stream(name); }
  std::unique_ptr<Event> create_event() override { return inner_->create_event(); }
  void record(Event& event, Stream& stream) override { inner_->record(event, stream); }
  void wait(Stream& stream, Event& event, WaitReason reason = WaitReason::order) override;
  void copy(Stream& stream, BufferView destination, BufferView source) override;
  void fill_zero(Stream& stream, BufferView destination) override { inner_->fill_zero(stream, destination); }
  void launch(Stream& stream, const Executable& executable, const Bindings& bindings,
              const LaunchParameters& parameters) override;
  void synchronize(Event& event) override { inner_->synchronize(event); }
  void synchronize(Stream& stream) override { inner_->synchronize(stream); }
  std::unique_ptr<Executable> compile(const compiler::Graph& graph) override { return inner_->compile(graph); }
  void set_trace(Trace* trace) override { inner_->set_trace(trace); }
  void annotate(Stream& stream, int layer, int microbatch) override { inner_->annotate(stream, layer, microbatch); }

 private:
  enum class Call { copy, launch, allocation, count };

  // What the plan has for one call.
  struct Verdict {
    bool fail = false;
    std::chrono::microseconds delay{0};
  };

  Verdict judge(Call call, std::int64_t failing, std::chrono::microseconds delay_limit);
  bool skips(WaitReason reason);
  bool drops(const Executable& executable, const LaunchParameters& parameters);
  void apply(const Verdict& verdict, Stream& stream, const char* what);
  void check_allocation(Bytes size, std::string_view purpose);
  FaultPlan plan() const;

  const std::unique_ptr<HostDevice> inner_;
  mutable std::mutex mutex_;
  FaultPlan plan_;                                                           // guarded by mutex_
  FaultCounts counts_;                                                       // guarded by mutex_
  std::array<std::int64_t, static_cast<std::size_t>(Call::count)> calls_{};  // guarded by mutex_
  std::int64_t waits_ = 0;                                                   // of skipped_reason; guarded by mutex_
  std::uint32_t draws_ = 0;                                                  // guarded by mutex_
};

}  // namespace l2l::device

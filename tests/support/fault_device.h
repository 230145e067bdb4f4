// The host device with planned faults, for tests of what runs on top of a device.
#pragma once

#include <chrono>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "device/forwarding_device.h"
#include "device/host/host_device.h"

namespace l2l::testing {

// What goes wrong, and when. Calls are counted from 0 since the plan was set; kNever and kEvery stand for no call and
// for all of them. Delays are drawn from [0, limit] by `seed` and pass on the stream, not on the caller.
struct FaultPlan {
  static constexpr std::int64_t kNever = -1;
  static constexpr std::int64_t kEvery = std::numeric_limits<std::int64_t>::max();

  std::uint64_t seed = 1;

  device::WaitReason skipped_reason = device::WaitReason::order;
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

// How often something was made to go wrong: negative controls check that their fault happened.
struct FaultCounts {
  std::int64_t skipped_waits = 0;
  std::int64_t delays = 0;
  std::int64_t failures = 0;
  std::int64_t dropped_launches = 0;
};

// Thread-safe.
class FaultDevice : public device::ForwardingDevice {
 public:
  FaultDevice(std::unique_ptr<device::HostDevice> host, FaultPlan plan);

  // Replaces the plan and sets all counts to 0.
  void set_plan(FaultPlan plan);
  FaultCounts counts() const;

  std::string description() const override;
  std::unique_ptr<device::Buffer> allocate(Bytes size, std::string_view purpose) override;
  std::unique_ptr<device::Buffer> allocate_pinned(Bytes size, std::string_view purpose) override;
  void wait(device::Stream& stream, device::Event& event,
            device::WaitReason reason = device::WaitReason::order) override;
  void copy(device::Stream& stream, device::BufferView destination, device::BufferView source) override;
  void copy_rows(device::Stream& stream, const device::RowCopy& rows) override;
  // A copy to the device, as far as faults go.
  void copy_from_peer(device::Stream& stream, device::BufferView destination, device::BufferView source) override;
  void launch(device::Stream& stream, const device::Executable& executable, const device::Bindings& bindings,
              const device::LaunchParameters& parameters) override;

 private:
  void judge_copy(device::Stream& stream, const std::byte* destination, const std::byte* source);
  enum class Call { copy, launch, allocation, count };

  // What the plan has for one call.
  struct Verdict {
    bool fail = false;
    std::chrono::microseconds delay{0};
  };

  Verdict judge(Call call, std::int64_t failing, std::chrono::microseconds delay_limit);
  bool skips(device::WaitReason reason);
  bool drops(const device::Executable& executable, const device::LaunchParameters& parameters);
  void apply(const Verdict& verdict, device::Stream& stream, const char* what);
  void check_allocation(Bytes size, std::string_view purpose);
  FaultPlan plan() const;

  device::HostDevice& host_;  // the inner device
  mutable std::mutex mutex_;
  FaultPlan plan_;                                                           // guarded by mutex_
  FaultCounts counts_;                                                       // guarded by mutex_
  std::array<std::int64_t, static_cast<std::size_t>(Call::count)> calls_{};  // guarded by mutex_
  std::int64_t waits_ = 0;                                                   // of skipped_reason; guarded by mutex_
  std::uint32_t draws_ = 0;                                                  // guarded by mutex_
};

}  // namespace l2l::testing

#include "tests/support/fault_device.h"

#include <thread>
#include <utility>

#include "core/philox.h"
#include "l2l/errors.h"
#include "tests/support/poison.h"

namespace l2l::testing {

using namespace device;

namespace {

bool hits(std::int64_t planned, std::int64_t call) { return planned == FaultPlan::kEvery || planned == call; }

}  // namespace

FaultDevice::FaultDevice(std::unique_ptr<HostDevice> host, FaultPlan plan)
    : ForwardingDevice(std::move(host)), host_(static_cast<HostDevice&>(inner())), plan_(std::move(plan)) {}

void FaultDevice::set_plan(FaultPlan plan) {
  const std::lock_guard lock(mutex_);
  plan_ = std::move(plan);
  counts_ = {};
  calls_ = {};
  waits_ = 0;
  draws_ = 0;
}

FaultCounts FaultDevice::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

FaultPlan FaultDevice::plan() const {
  const std::lock_guard lock(mutex_);
  return plan_;
}

std::string FaultDevice::description() const { return host_.description() + " with faults"; }

FaultDevice::Verdict FaultDevice::judge(Call call, std::int64_t failing, std::chrono::microseconds delay_limit) {
  const std::lock_guard lock(mutex_);
  Verdict verdict;
  verdict.fail = hits(failing, calls_[static_cast<std::size_t>(call)]++);
  if (verdict.fail) ++counts_.failures;
  if (delay_limit.count() > 0) {
    const float uniform = to_uniform(philox({.seed = plan_.seed}, draws_++)[0]);
    verdict.delay =
        std::chrono::microseconds(static_cast<std::int64_t>(uniform * static_cast<float>(delay_limit.count() + 1)));
    ++counts_.delays;
  }
  return verdict;
}

bool FaultDevice::skips(WaitReason reason) {
  const std::lock_guard lock(mutex_);
  if (reason != plan_.skipped_reason || !hits(plan_.skip_wait, waits_++)) return false;
  ++counts_.skipped_waits;
  return true;
}

bool FaultDevice::drops(const Executable& executable, const LaunchParameters& parameters) {
  const std::lock_guard lock(mutex_);
  if (plan_.drop_program != executable.program().graph.name || !hits(plan_.drop_microbatch, parameters.microbatch)) {
    return false;
  }
  ++counts_.dropped_launches;
  return true;
}

void FaultDevice::apply(const Verdict& verdict, Stream& stream, const char* what) {
  if (verdict.delay.count() > 0) {
    host_.enqueue_call(stream, [delay = verdict.delay] { std::this_thread::sleep_for(delay); });
  }
  if (verdict.fail) {
    host_.enqueue_call(stream, [what] { throw DeviceError(std::string(what) + " failed, as planned"); });
  }
}

void FaultDevice::check_allocation(Bytes size, std::string_view purpose) {
  if (!judge(Call::allocation, plan().fail_allocation, {}).fail) return;
  throw OutOfMemory(std::string(purpose) + ": needs " + format_bytes(size) + "; the allocation failed, as planned");
}

std::unique_ptr<Buffer> FaultDevice::allocate(Bytes size, std::string_view purpose) {
  check_allocation(size, purpose);
  std::unique_ptr<Buffer> buffer = host_.allocate(size, purpose);
  return plan().poison ? poisoned(std::move(buffer)) : std::move(buffer);
}

std::unique_ptr<Buffer> FaultDevice::allocate_pinned(Bytes size, std::string_view purpose) {
  check_allocation(size, purpose);
  return host_.allocate_pinned(size, purpose);
}

void FaultDevice::wait(Stream& stream, Event& event, WaitReason reason) {
  if (!skips(reason)) host_.wait(stream, event, reason);
}

void FaultDevice::judge_copy(Stream& stream, const std::byte* destination, const std::byte* source) {
  const FaultPlan plan = this->plan();
  const CopyDirection direction = host_.direction(destination, source);
  const auto limit = direction == CopyDirection::to_device ? plan.copy_h2d_delay
                     : direction == CopyDirection::to_host ? plan.copy_d2h_delay
                                                           : std::chrono::microseconds{0};
  apply(judge(Call::copy, plan.fail_copy, limit), stream, "copy");
}

void FaultDevice::copy(Stream& stream, BufferView destination, BufferView source) {
  judge_copy(stream, destination.data, source.data);
  host_.copy(stream, destination, source);
}

void FaultDevice::copy_rows(Stream& stream, const RowCopy& rows) {
  judge_copy(stream, rows.destination, rows.source);
  host_.copy_rows(stream, rows);
}

void FaultDevice::copy_from_peer(Stream& stream, BufferView destination, BufferView source) {
  const FaultPlan plan = this->plan();
  apply(judge(Call::copy, plan.fail_copy, plan.copy_h2d_delay), stream, "copy");
  host_.copy_from_peer(stream, destination, source);
}

void FaultDevice::launch(Stream& stream, const Executable& executable, const Bindings& bindings,
                         const LaunchParameters& parameters) {
  const FaultPlan plan = this->plan();
  apply(judge(Call::launch, plan.fail_launch, plan.launch_delay), stream, "launch");
  if (!drops(executable, parameters)) host_.launch(stream, executable, bindings, parameters);
}

}  // namespace l2l::testing

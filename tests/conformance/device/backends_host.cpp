// What runs on every machine.
#include "tests/conformance/device/device_test.h"

namespace l2l::device {
namespace {

// A paced device that conformance need not wait for.
const PaceTable kQuick{4 * kGiB, 4 * kGiB, {{"triple", std::chrono::microseconds(100)}}, {}};

}  // namespace

std::vector<Backend> backends() {
  FaultPlan slow;
  slow.copy_h2d_delay = slow.copy_d2h_delay = slow.launch_delay = std::chrono::microseconds(300);
  slow.poison = true;
  return {{"host", [](int) { return std::make_unique<HostDevice>(2, 0); }},
          {"host_one_thread", [](int) { return std::make_unique<HostDevice>(1, 0); }},
          {"host_throttled", [](int) { return std::make_unique<HostDevice>(2, 4 * kGiB); }},
          {"fault_with_random_delays", [slow](int) { return open_fault(slow); }},
          {"serial", [](int) { return std::make_unique<SerialDevice>(std::make_unique<HostDevice>(2, 0)); }},
          {"paced", [](int) { return std::make_unique<PacedDevice>(kQuick); }}};
}

}  // namespace l2l::device

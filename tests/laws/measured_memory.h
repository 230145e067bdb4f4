// What a run takes of its devices and of page-locked memory, which the contract states exactly.
#pragma once

#include <vector>

#include "tests/laws/counting_device.h"
#include "tests/laws/small_run.h"

namespace l2l::testing {

struct MeasuredMemory {
  std::vector<std::uint64_t> devices;  // the peak of each
  std::uint64_t pinned = 0;
};

// Of some steps on host devices.
inline MeasuredMemory measured_memory(const Options& options, int steps) {
  MeasuredMemory measured;
  std::vector<device::Device*> seen;
  record_on(
      options, steps,
      [&](std::unique_ptr<device::HostDevice> inner) {
        auto counting = std::make_unique<CountingDevice>(std::move(inner), measured.pinned);
        seen.push_back(counting.get());
        return counting;
      },
      [&] {
        for (const device::Device* device : seen) measured.devices.push_back(device->peak_bytes());
      });
  return measured;
}

}  // namespace l2l::testing

#include "tools/bench/benches.h"

#include <cstdio>
#include <iostream>

#include "base/json.h"
#include "l2l/errors.h"
#include "runtime/tuning/calibration.h"
#include "tools/bench/link_speed.h"

namespace l2l::tools {
namespace {

constexpr Bytes kCalibrationBytes = 64 << 20;  // smaller copies may come out of a cache

// For predictions (l2l-plan).
void keep(const LinkSpeed& speed) {
  runtime::Calibration calibration;
  calibration.set(runtime::link_bandwidth(speed.device, true), speed.h2d);
  calibration.set(runtime::link_bandwidth(speed.device, false), speed.d2h);
  calibration.save();
}

}  // namespace

int bench_link(const LinkArguments& arguments, bool json) {
  const Bytes bytes = parse_bytes(arguments.size);
  if (bytes == 0) throw BadInput("--size " + arguments.size + ": nothing to copy");
  const LinkSpeed speed = measure_link(arguments.device, bytes);
  if (bytes >= kCalibrationBytes) keep(speed);
  if (json) {
    const nlohmann::ordered_json result = {{"device", speed.device},     {"copy_bytes", bytes},
                                           {"h2d", speed.h2d},           {"d2h", speed.d2h},
                                           {"both_h2d", speed.both_h2d}, {"both_d2h", speed.both_d2h}};
    std::cout << json_text(result) << std::endl;
    return kSuccess;
  }
  std::printf("%s, copies of %s\n", speed.device.c_str(), format_bytes(bytes).c_str());
  std::printf("  %-12s %10s %10s\n", "GB/s", "to device", "to host");
  std::printf("  %-12s %10.2f %10.2f\n", "alone", 1e-9 * speed.h2d, 1e-9 * speed.d2h);
  std::printf("  %-12s %10.2f %10.2f\n", "both at once", 1e-9 * speed.both_h2d, 1e-9 * speed.both_d2h);
  return kSuccess;
}

}  // namespace l2l::tools

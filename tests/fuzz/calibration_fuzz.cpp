// Files of measured figures: what cannot be read is passed over, and no figure is negative, zero or not a number.
#include <cmath>

#include "l2l/log.h"
#include "runtime/tuning/calibration.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace l2l;
  set_log_sink([](LogLevel, std::string_view) {});
  runtime::Calibration calibration(fuzz::write_file("machine.json", data, size), "this machine");
  for (const char* const name : {"figure", "link h2d", ""}) {
    const std::optional<double> value = calibration.find(name);
    if (value && !(*value > 0 && std::isfinite(*value))) __builtin_trap();
  }
  return 0;
}

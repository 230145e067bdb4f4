// Integer linear programs in two variables.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace l2l::compiler::remat {

// a * x + b * y.
struct LinearForm {
  std::int64_t a = 0, b = 0;

  std::int64_t at(std::int64_t x, std::int64_t y) const { return a * x + b * y; }
};

// Minimize time.at(a, b) over integers 0 <= a <= most_a, 0 <= b <= most_b with a + b <= most_both,
// device.at(a, b) <= device_left and host.at(a, b) <= host_left.
struct IntegerProgram {
  LinearForm time, device, host;
  std::int64_t device_left = 0, host_left = 0;
  std::int64_t most_a = 0, most_b = 0, most_both = 0;
};

struct IntegerPoint {
  std::int64_t time = 0, a = 0, b = 0;
};

// An optimum, if its time is less than `below`. Exact for bytes and their sums below 2^62 and times below 2^52.
std::optional<IntegerPoint> solve(const IntegerProgram& program, std::int64_t below);

}  // namespace l2l::compiler::remat

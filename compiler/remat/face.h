// The best point of whole numbers in a convex region of the plane.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace l2l::compiler::remat {

// What `a` layers of one option and `b` of another add to something.
struct FaceSum {
  std::int64_t a = 0, b = 0;

  std::int64_t at(std::int64_t x, std::int64_t y) const { return a * x + b * y; }
};

// The numbers of layers that take two options: 0 <= a <= most_a, 0 <= b <= most_b, a + b <= most_both, and two sums of
// bytes stay within what is left (which may be negative).
struct Face {
  FaceSum time, device, host;
  std::int64_t device_left = 0, host_left = 0;
  std::int64_t most_a = 0, most_b = 0, most_both = 0;
};

struct FacePoint {
  std::int64_t time = 0, a = 0, b = 0;
};

// The point of least time, of all that take less than `below`; of equal time the one found first, from the optimum
// without whole numbers outwards. Exact for sums and bytes below 2^62 and times below 2^52.
std::optional<FacePoint> best_point(const Face& face, std::int64_t below);

}  // namespace l2l::compiler::remat

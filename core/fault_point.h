// Named places where a test can make the code break a law on purpose, so that the test of the law is seen to catch it.
// Where the build option fault_points is off, each one is the constant `false` and leaves nothing behind.
#pragma once

namespace l2l {

#ifdef L2L_FAULT_POINTS
// True when `name` is armed (one atomic load when nothing is). Thread-safe.
bool fault_point(const char* name);
// Arms `name`; an empty string disarms. One point at a time.
void arm_fault_point(const char* name);
#else
constexpr bool fault_point(const char*) { return false; }
#endif

}  // namespace l2l

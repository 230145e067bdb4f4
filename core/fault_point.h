// Named places where a negative control makes the code break a law on purpose, so that the law's test is seen to catch
// it. With the build option fault_points off, each is the constant `false` and compiles to nothing.
#pragma once

namespace l2l {

#ifdef L2L_FAULT_POINTS
// Whether `name` is armed; one atomic load when nothing is. Thread-safe.
bool fault_point(const char* name);
// Arms `name`; an empty string disarms. One point at a time.
void arm_fault_point(const char* name);
#else
constexpr bool fault_point(const char*) { return false; }
#endif

}  // namespace l2l

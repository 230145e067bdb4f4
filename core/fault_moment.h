// A negative control of the watchdog and of law 8: one thread throws, or hangs, at its n-th moment of progress. With
// the build option fault_points off it compiles to nothing.
#pragma once

namespace l2l {

#ifdef L2L_FAULT_POINTS
inline constexpr bool kFaultPoints = true;
// Counts a moment, and breaks the calling thread where it is the one of arm_fault_moment() (core/activity.h).
void fault_moment();
#else
inline constexpr bool kFaultPoints = false;
inline void fault_moment() {}
#endif

}  // namespace l2l

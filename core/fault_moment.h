// A negative control of the watchdog and of law 8: one thread throws, or hangs, at its n-th moment of progress. With
// the build option fault_points off it compiles to nothing.
#pragma once

namespace l2l {

#ifdef L2L_FAULT_POINTS
inline constexpr bool kFaultPoints = true;
// Counts a moment. At the one that the environment variable L2L_FAULT_MOMENT names ("throw:1234", "hang:1234"), of
// whatever thread, that thread throws, or sleeps for ever.
void fault_moment();
#else
inline constexpr bool kFaultPoints = false;
inline void fault_moment() {}
#endif

}  // namespace l2l

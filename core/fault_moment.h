// A negative control of the watchdog and of law 8: one thread throws or hangs, or the process is killed, at its n-th
// moment of progress. With the build option fault_points off it compiles to nothing.
#pragma once

#include <string>

namespace l2l {

struct ThreadSlot;  // core/activity.h

#ifdef L2L_FAULT_POINTS
inline constexpr bool kFaultPoints = true;
// Counts a moment of `thread`, the calling one. At the one that the environment variable L2L_FAULT_MOMENT names, it
// throws, sleeps for ever, or ends the process by SIGKILL: "throw:1234", "hang:1234", "kill:1234", counted over all
// threads, or "throw:2:checkpoint saver", over those whose names begin so.
void fault_moment(const ThreadSlot& thread);
// Arms it by such a text, while no listed thread runs but the caller's; an empty one disarms it.
void arm_fault_moment(const std::string& text);
// Moments until what was armed happens.
long long fault_moments_left();
#else
inline constexpr bool kFaultPoints = false;
inline void fault_moment(const ThreadSlot&) {}
#endif

}  // namespace l2l

// What both implementations of Workers share.
#include "core/workers.h"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "core/cpu_quota.h"
#include "core/denormals.h"

namespace l2l {
namespace {

int cores_of_affinity_mask() {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) return CPU_COUNT(&mask);
  return static_cast<int>(std::thread::hardware_concurrency());  // more than CPU_SETSIZE cores
}

}  // namespace

int available_cores() {
  const int quota = cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
  const int cores = std::max(1, cores_of_affinity_mask());
  return quota > 0 ? std::min(cores, quota) : cores;
}

void flush_denormals_to_zero() {
#if defined(__SSE__)
  _mm_setcsr(_mm_getcsr() | FlushDenormals::kFlushToZero | FlushDenormals::kDenormalsAreZero);
#endif
}

}  // namespace l2l

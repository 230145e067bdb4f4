// Arms a fault point for the life of an object; skips the test in builds without them.
#pragma once

#include <gtest/gtest.h>

#include "core/fault_point.h"

#ifdef L2L_FAULT_POINTS
#define L2L_NEEDS_FAULT_POINTS()
#else
#define L2L_NEEDS_FAULT_POINTS() GTEST_SKIP() << "built without fault points"
#endif

namespace l2l::testing {

class ArmedFaultPoint {
 public:
#ifdef L2L_FAULT_POINTS
  explicit ArmedFaultPoint(const char* name) { arm_fault_point(name); }
  ~ArmedFaultPoint() { arm_fault_point(""); }
#else
  explicit ArmedFaultPoint(const char*) {}
#endif
  ArmedFaultPoint(const ArmedFaultPoint&) = delete;
  ArmedFaultPoint& operator=(const ArmedFaultPoint&) = delete;
};

}  // namespace l2l::testing

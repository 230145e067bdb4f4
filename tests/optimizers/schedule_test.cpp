#include "optimizers/schedule.h"

#include <gtest/gtest.h>

namespace l2l::optimizers {
namespace {

Schedule schedule(ScheduleKind kind, std::uint64_t warmup) {
  return {.kind = kind, .learning_rate = 1.0, .minimum = 0.2, .warmup_steps = warmup, .steps = 12};
}

TEST(Schedule, WarmsUpLinearlyToThePeak) {
  for (const ScheduleKind kind : {ScheduleKind::constant, ScheduleKind::cosine, ScheduleKind::linear}) {
    EXPECT_DOUBLE_EQ(schedule(kind, 4).at(0), 0.25);
    EXPECT_DOUBLE_EQ(schedule(kind, 4).at(2), 0.75);
    EXPECT_DOUBLE_EQ(schedule(kind, 4).at(3), 1.0);
    EXPECT_DOUBLE_EQ(schedule(kind, 4).at(4), 1.0);
    EXPECT_DOUBLE_EQ(schedule(kind, 0).at(0), 1.0);
  }
}

TEST(Schedule, ConstantStaysAtThePeak) {
  EXPECT_DOUBLE_EQ(schedule(ScheduleKind::constant, 4).at(11), 1.0);
  EXPECT_DOUBLE_EQ(schedule(ScheduleKind::constant, 4).at(1000), 1.0);
}

TEST(Schedule, LinearReachesTheMinimumAtTheEnd) {
  EXPECT_DOUBLE_EQ(schedule(ScheduleKind::linear, 4).at(6), 0.8);
  EXPECT_DOUBLE_EQ(schedule(ScheduleKind::linear, 4).at(8), 0.6);
  EXPECT_DOUBLE_EQ(schedule(ScheduleKind::linear, 4).at(12), 0.2);
  EXPECT_DOUBLE_EQ(schedule(ScheduleKind::linear, 4).at(50), 0.2);
}

TEST(Schedule, CosineIsHalfwayInTheMiddle) {
  EXPECT_NEAR(schedule(ScheduleKind::cosine, 4).at(6), 0.2 + 0.8 * 0.853553390593, 1e-12);  // (1 + cos(pi / 4)) / 2
  EXPECT_NEAR(schedule(ScheduleKind::cosine, 4).at(8), 0.6, 1e-12);
  EXPECT_NEAR(schedule(ScheduleKind::cosine, 4).at(12), 0.2, 1e-12);
  EXPECT_NEAR(schedule(ScheduleKind::cosine, 4).at(50), 0.2, 1e-12);
}

TEST(Schedule, WarmupAsLongAsTheRunEndsAtTheMinimum) {
  EXPECT_DOUBLE_EQ(schedule(ScheduleKind::linear, 12).at(11), 1.0);
  EXPECT_DOUBLE_EQ(schedule(ScheduleKind::linear, 12).at(12), 0.2);
}

}  // namespace
}  // namespace l2l::optimizers

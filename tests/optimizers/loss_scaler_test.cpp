#include "optimizers/loss_scaler.h"

#include <gtest/gtest.h>

namespace l2l::optimizers {
namespace {

TEST(LossScaler, DoublesAfterAnIntervalWithoutOverflow) {
  LossScaler scaler = LossScaler::dynamic(3);
  EXPECT_EQ(scaler.scale(), 65536);
  for (int step = 0; step < 2; ++step) scaler.add_step(false);
  EXPECT_EQ(scaler.scale(), 65536);
  scaler.add_step(false);
  EXPECT_EQ(scaler.scale(), 131072);
  EXPECT_EQ(scaler.good_steps(), 0u);
}

TEST(LossScaler, AnOverflowHalvesAndBeginsTheIntervalAgain) {
  LossScaler scaler = LossScaler::dynamic(3);
  scaler.add_step(false);
  scaler.add_step(false);
  scaler.add_step(true);
  EXPECT_EQ(scaler.scale(), 32768);
  scaler.add_step(false);
  scaler.add_step(false);
  EXPECT_EQ(scaler.scale(), 32768);
  scaler.add_step(false);
  EXPECT_EQ(scaler.scale(), 65536);
}

TEST(LossScaler, StaysWithinItsBounds) {
  LossScaler scaler = LossScaler::dynamic(1);
  for (int step = 0; step < 100; ++step) scaler.add_step(false);
  EXPECT_EQ(scaler.scale(), 16777216);
  for (int step = 0; step < 24; ++step) {
    EXPECT_TRUE(scaler.may_shrink());
    scaler.add_step(true);
  }
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_FALSE(scaler.may_shrink());
}

TEST(LossScaler, AFixedOneStays) {
  LossScaler scaler = LossScaler::fixed(1024);
  EXPECT_FALSE(scaler.is_dynamic());
  EXPECT_FALSE(scaler.may_shrink());
  scaler.add_step(true);
  for (int step = 0; step < 5000; ++step) scaler.add_step(false);
  EXPECT_EQ(scaler.scale(), 1024);
  EXPECT_EQ(LossScaler().scale(), 1);
}

TEST(LossScaler, GoesOnWhereItWasRestored) {
  LossScaler first = LossScaler::dynamic(4), second = LossScaler::dynamic(4);
  for (const bool overflow : {true, true, false, false, false}) first.add_step(overflow);
  second.restore(first.scale(), first.good_steps());
  first.add_step(false);
  second.add_step(false);
  EXPECT_EQ(second.scale(), 32768);
  EXPECT_EQ(second.scale(), first.scale());
}

}  // namespace
}  // namespace l2l::optimizers

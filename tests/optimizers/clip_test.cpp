#include "optimizers/clip.h"

#include <gtest/gtest.h>

namespace l2l::optimizers {
namespace {

TEST(ClipFactor, IsOneBelowTheLimit) {
  EXPECT_EQ(clip_factor(0, 1), 1);
  EXPECT_EQ(clip_factor(0.999, 1), 1);
}

TEST(ClipFactor, ScalesDownToTheLimit) {
  EXPECT_DOUBLE_EQ(clip_factor(4, 1), 1 / 4.000001);
  EXPECT_NEAR(clip_factor(1e6, 0.5) * 1e6, 0.5, 1e-6);
}

// PyTorch adds 1e-6 to the norm, so that a norm at the limit already shrinks a little.
TEST(ClipFactor, AtTheLimitIsJustBelowOne) { EXPECT_DOUBLE_EQ(clip_factor(1, 1), 1 / 1.000001); }

}  // namespace
}  // namespace l2l::optimizers

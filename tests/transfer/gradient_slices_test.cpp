// Slices are a partition of a layer's gradients, whatever their number.
#include "transfer/gradient_slices.h"

#include <gtest/gtest.h>

namespace l2l::transfer {
namespace {

TEST(GradientSlices, EveryElementIsInOneSlice) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (int devices = 1; devices <= 9; ++devices) {
      for (std::int64_t elements = 0; elements < 3000; ++elements) {
        const GradientSlices slices{elements, type, devices};
        std::int64_t covered = 0;
        for (int device = 0; device < devices; ++device) {
          ASSERT_EQ(slices.begin(device), covered) << elements << " elements, device " << device << " of " << devices;
          ASSERT_LE(slices.elements_of(device), slices.slice());
          covered += slices.elements_of(device);
        }
        ASSERT_EQ(covered, elements) << devices;
        ASSERT_GE(slices.room(), slices.bytes());
        ASSERT_LT(slices.room(), slices.bytes() + static_cast<Bytes>(devices) * GradientSlices::kAlignment + 1);
        ASSERT_EQ(slices.received() * static_cast<Bytes>(devices), slices.room() * static_cast<Bytes>(devices - 1));
      }
    }
  }
}

TEST(GradientSlices, SlicesAreAlignedAndAsEvenAsThatAllows) {
  const GradientSlices slices{1'000'001, DType::bf16, 3};
  EXPECT_EQ(slices.slice(), 333'440);  // 2605 x 128, the first multiple from 333,333.67 on
  EXPECT_EQ(slices.elements_of(2), 333'121);
  EXPECT_EQ(slices.sums(), 4u * 333'440);
  EXPECT_EQ(slices.brought(2), 4u * 333'121);
  EXPECT_EQ((GradientSlices{1'000'001, DType::bf16, 1}.brought(0)), 2'000'002u);
  const GradientSlices small{100, DType::f32, 4};  // less than an alignment each
  EXPECT_EQ(small.elements_of(0), 64);
  EXPECT_EQ(small.elements_of(1), 36);
  EXPECT_EQ(small.elements_of(3), 0);
}

}  // namespace
}  // namespace l2l::transfer

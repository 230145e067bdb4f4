// Slices are a partition of the wire, whatever its length.
#include "transfer/wire_slices.h"

#include <gtest/gtest.h>

namespace l2l::transfer {
namespace {

TEST(WireSlices, EveryByteOfAWireIsInOneSlice) {
  for (int devices = 1; devices <= 9; ++devices) {
    for (Bytes wire = 0; wire < 7000; ++wire) {
      const WireSlices slices{wire, devices};
      Bytes covered = 0;
      for (int device = 0; device < devices; ++device) {
        ASSERT_EQ(slices.begin(device), covered) << wire << " bytes, device " << device << " of " << devices;
        ASSERT_LE(slices.bytes(device), slices.slice());
        covered += slices.bytes(device);
      }
      ASSERT_EQ(covered, wire) << devices;
      ASSERT_EQ(slices.room(), static_cast<Bytes>(devices) * slices.slice());
      ASSERT_EQ(slices.received(), slices.room() - slices.slice());
      ASSERT_GE(slices.room(), wire);
      ASSERT_LT(slices.room(), wire + static_cast<Bytes>(devices) * WireSlices::kAlignment);
    }
  }
}

TEST(WireSlices, SlicesAreAlignedAndAsEvenAsThatAllows) {
  const WireSlices slices{1'000'001, 3};
  EXPECT_EQ(slices.slice(), 333'568u);  // 1303 x 256, the first multiple from 333,333.67 on
  EXPECT_EQ(slices.begin(2), 667'136u);
  EXPECT_EQ(slices.bytes(2), 332'865u);
  const WireSlices small{300, 4};  // less than an alignment each
  EXPECT_EQ(small.bytes(0), 256u);
  EXPECT_EQ(small.bytes(1), 44u);
  EXPECT_EQ(small.bytes(3), 0u);
}

TEST(WireSlices, OneDeviceCopiesTheWireAndNothingElse) {
  const WireSlices whole{4097, 1};
  EXPECT_EQ(whole.room(), 4097u);
  EXPECT_EQ(whole.bytes(0), 4097u);
  EXPECT_EQ(whole.received(), 0u);
}

}  // namespace
}  // namespace l2l::transfer

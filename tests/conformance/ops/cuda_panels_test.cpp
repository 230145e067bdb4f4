// How losses cut their logits: sizes, alignment, and which vocabularies are taken in one pass.
#include <gtest/gtest.h>

#include "device/kernels/logit_panels.h"

namespace l2l::test {
namespace {

using device::cuda::LogitPanels;
using device::kernels::Partition;

constexpr Bytes kLimit = device::cuda::Context{}.logits;

void expect_aligned_cover(const Partition& partition, std::int64_t total) {
  std::int64_t end = 0;
  for (std::int64_t block = 0; block < partition.count(); ++block) {
    EXPECT_EQ(partition.begin(block), end);
    EXPECT_EQ(partition.begin(block) % 64, 0);  // 16 bytes of any type, whatever a row's width
    EXPECT_GT(partition.end(block), partition.begin(block));
    end = partition.end(block);
  }
  EXPECT_EQ(end, total);
}

TEST(CudaLogitPanels, CoverAllLogitsWithinTheLimit) {
  for (const std::int64_t rows : {1, 63, 64, 511, 512, 4096, 4097, 16384, 65536}) {
    for (const std::int64_t vocabulary : {1, 33, 8192, 8193, 30522, 32000, 50257, 128256, 131073, 262144}) {
      for (const LogitPanels& panels :
           {LogitPanels::parts(rows, vocabulary, kLimit), LogitPanels::whole_rows(rows, vocabulary, kLimit)}) {
        expect_aligned_cover(panels.rows, rows);
        expect_aligned_cover(panels.tokens, vocabulary);
        EXPECT_LE(static_cast<Bytes>(panels.elements()) * sizeof(float), kLimit) << rows << " x " << vocabulary;
        EXPECT_GE(panels.stride(), panels.tokens.size);
        EXPECT_EQ(panels.stride() % 8, 0);
      }
    }
  }
}

TEST(CudaLogitPanels, TakeKnownVocabulariesInOnePass) {
  for (const std::int64_t vocabulary : {30522, 32000, 50257, 128256}) {
    const LogitPanels panels = LogitPanels::whole_rows(16384, vocabulary, kLimit);
    EXPECT_EQ(panels.tokens.count(), 1) << vocabulary;
    EXPECT_GE(panels.rows.size, 448) << vocabulary;  // even cuts of 512 and more
  }
  EXPECT_GT(LogitPanels::whole_rows(16384, 200000, kLimit).tokens.count(), 1);
  EXPECT_EQ(LogitPanels::whole_rows(8, 200000, kLimit).tokens.count(), 1);  // few rows fit after all
}

TEST(CudaLogitPanels, OfFewRowsAreSmall) {
  EXPECT_EQ(LogitPanels::whole_rows(64, 32000, kLimit).elements(), 64 * 32000);
  EXPECT_EQ(LogitPanels::parts(64, 32000, kLimit).elements(), 64 * 8000);
}

}  // namespace
}  // namespace l2l::test

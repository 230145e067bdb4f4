#include "models/vocabulary_chunks.h"

#include <gtest/gtest.h>

#include "models/families.h"

namespace l2l::models {
namespace {

using compiler::Graph;
using compiler::Region;
using compiler::Value;

TransformerShape shape_of(std::int64_t vocabulary) {
  return {.layers = 1,
          .hidden = 20,
          .heads = 2,
          .intermediate = 40,
          .vocabulary = vocabulary,
          .sequence = 9,
          .micro_batch = 3,
          .dropout = 0,
          .compute = DType::f32};
}

TEST(VocabularyChunks, CoverTheTableOnceWhateverTheirNumber) {
  for (const std::int64_t vocabulary : {1, 7, 8, 9, 15, 16, 17, 24}) {
    const TransformerShape shape = shape_of(vocabulary);
    for (const std::int64_t rows : {1, 8, 16, 100}) {
      const VocabularyChunks chunks{shape, rows, 0, 1, false};
      constexpr GroupIndex kGroup = 3;
      constexpr std::int64_t kColumns = 5;
      std::int64_t end = 0;
      for (int i = 0; i < chunks.count(); ++i) {
        const std::int64_t tokens = chunks.tokens(i);
        EXPECT_TRUE(tokens > 0 && tokens <= rows) << vocabulary << " in chunks of " << rows << ", chunk " << i;
        EXPECT_TRUE(i + 1 == chunks.count() || tokens == rows);
        const LayerPart part = chunks.part(kGroup, i, kColumns);
        EXPECT_EQ(part.group, kGroup);
        EXPECT_EQ(part.begin, end * kColumns);
        EXPECT_EQ(part.elements, i + 1 < chunks.count() ? tokens * kColumns : 0) << "the last has the rest";
        end += tokens;
      }
      EXPECT_EQ(end, vocabulary) << "in chunks of " << rows;
    }
  }
}

// The values that a graph keeps in Region::carry, which outlive it: statistics must not lie within the gradient's sums.
TEST(VocabularyChunks, WhatAChunkCarriesDoesNotOverlap) {
  const TransformerShape shape = shape_of(24);
  const VocabularyChunks chunks{shape, 8, 0, 1, false};
  const Bytes sums = 27 * 20 * 4, statistics = 27 * 3 * 8, begin = (sums + 63) / 64 * 64;
  for (const bool last : {false, true}) {
    const LayerType type = head_chunk(chunks, chunks.tokens(0), {true, false}, last);
    for (const Graph* const graph : {&type.forward, &type.backward}) {
      EXPECT_EQ(graph->region_bytes(Region::carry), begin + statistics);
      for (const Value& value : graph->values) {
        if (value.region != Region::carry) continue;
        const bool lies_in_sums = value.offset + value.bytes() <= sums, lies_behind = value.offset >= begin;
        EXPECT_TRUE(lies_in_sums || lies_behind) << value.name;
      }
    }
  }
}

// Four numbers of 4 bytes for each row of a microbatch: place, first and last row of its document, token type.
TEST(PackedModels, FieldsOfRowsHaveRoom) {
  TransformerShape shape = shape_of(24);
  EXPECT_EQ(make_gpt2(shape).row_fields_bytes(), 0u);
  shape.packed = true;
  const Model model = make_gpt2(shape);
  EXPECT_EQ(model.row_fields_bytes(), 4u * 27u * 4u);
  for (const LayerType& type : model.types) {
    EXPECT_LE(type.forward.region_bytes(Region::rows), model.row_fields_bytes());
    EXPECT_LE(type.backward.region_bytes(Region::rows), model.row_fields_bytes());
  }
}

}  // namespace
}  // namespace l2l::models

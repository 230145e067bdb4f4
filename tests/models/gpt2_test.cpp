#include "models/families.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/models/model_checks.h"

namespace l2l::models {
namespace {

TransformerShape gpt2_shape(DType compute = DType::f32) {
  return {.layers = 3,
          .hidden = 24,
          .heads = 3,
          .intermediate = 96,
          .vocabulary = 50,
          .sequence = 10,
          .micro_batch = 2,
          .dropout = 0.1f,
          .compute = compute};
}

// Radford et al., 2019, and the Hugging Face files: 124,439,808 and 1,557,611,200 parameters.
TEST(Gpt2, ParametersOfThePublishedModels) {
  EXPECT_EQ(make_gpt2({12, 768, 12, 3072, 50257, 1024, 1, 0.1f, DType::f32}).layout.parameters(), 124'439'808);
  EXPECT_EQ(make_gpt2({48, 1600, 25, 6400, 50257, 1024, 1, 0.1f, DType::bf16}).layout.parameters(), 1'557'611'200);
}

TEST(Gpt2, IdenticalBlocksShareOneType) {
  const Model model = make_gpt2(gpt2_shape());
  EXPECT_EQ(model.types.size(), 3u);
  EXPECT_EQ(model.type_of, (std::vector<int>{0, 1, 1, 1, 2}));
  EXPECT_EQ(model.blocks(), 3);
}

TEST(Gpt2, NamesAndDecayAreThoseOfTheHuggingFaceFiles) {
  const std::set<std::string> names = test::names_with_decay_of_matrices(make_gpt2(gpt2_shape()));
  EXPECT_EQ(names.size(), 2u + 3u * 12u + 2u);
  for (const char* name : {"wte.weight", "wpe.weight", "h.2.ln_1.weight", "h.0.attn.c_attn.weight",
                           "h.0.attn.c_proj.bias", "h.1.mlp.c_fc.weight", "h.1.mlp.c_proj.weight", "ln_f.bias"}) {
    EXPECT_TRUE(names.count(name)) << name;
  }
}

TEST(Gpt2, TheTableIsOneGroupWithTwoUses) {
  const Model model = make_gpt2(gpt2_shape());
  const std::vector<int> uses = model.layout.uses();
  EXPECT_EQ(uses[0], 2);
  for (std::size_t group = 1; group < uses.size(); ++group) EXPECT_EQ(uses[group], 1);
}

TEST(Gpt2, WiresFillTheirLayersWithoutOverlap) { test::expect_wires_are_filled(make_gpt2(gpt2_shape(DType::bf16))); }

// GPT-2 small: the table of 50,257 x 768 is larger than five blocks.
TEST(Gpt2, ATableLargerThanABlockTravelsInChunks) {
  const Model model = make_gpt2({12, 768, 12, 3072, 50257, 1024, 1, 0.1f, DType::bf16});
  const std::int64_t block = model.layout.layers[static_cast<std::size_t>(model.block(1))].elements;
  EXPECT_EQ(model.layout.largest_layer(), block);
  EXPECT_EQ(model.blocks(), 12);
  EXPECT_EQ(model.chunks.rows, block / 768 / 8 * 8);
  EXPECT_EQ(model.chunks.count, 6);
  EXPECT_EQ(model.layers(), 7 + 12 + 7);
  std::int64_t tokens = 0;
  for (int chunk = 0; chunk < model.chunks.count; ++chunk) {
    EXPECT_EQ(model.first_token(chunk), tokens);
    EXPECT_EQ(model.first_token(model.head() + 1 + chunk), tokens);
    tokens += std::min(model.chunks.rows, 50257 - tokens);
  }
  EXPECT_EQ(tokens, 50257);
  for (int layer = model.block(0); layer <= model.head(); ++layer) EXPECT_EQ(model.first_token(layer), 0);
  EXPECT_NO_THROW(model.layout.validate());
}

TEST(Gpt2, StableIdsDoNotDependOnDepth) {
  TransformerShape deeper = gpt2_shape();
  deeper.layers = 7;
  const Model a = make_gpt2(gpt2_shape()), b = make_gpt2(deeper);
  for (int layer = 0; layer <= a.blocks(); ++layer) {
    EXPECT_EQ(a.layout.layers[static_cast<std::size_t>(layer)].id, b.layout.layers[static_cast<std::size_t>(layer)].id);
  }
  EXPECT_EQ(a.layout.layers.back().id, b.layout.layers.back().id);
}

}  // namespace
}  // namespace l2l::models

#include "models/families.h"

#include <gtest/gtest.h>

#include "tests/models/model_checks.h"

namespace l2l::models {
namespace {

TransformerShape shape(bool tied, std::int64_t chunk = 0) {
  return {.layers = 3,
          .hidden = 24,
          .heads = 4,
          .intermediate = 72,
          .vocabulary = 50,
          .sequence = 10,
          .micro_batch = 2,
          .compute = DType::bf16,
          .vocabulary_chunk = chunk,
          .kv_heads = 2,
          .tie_embeddings = tied};
}

// Touvron et al., 2023 (Llama 2 7B), and Llama 3 8B and 3.2 1B as Hugging Face counts them: 6,738,415,616,
// 8,030,261,248 and 1,235,814,400 parameters.
TEST(Llama, ParametersOfThePublishedModels) {
  TransformerShape model{32, 4096, 32, 11008, 32000, 4096, 1};
  model.tie_embeddings = false;
  EXPECT_EQ(make_llama(model).layout.parameters(), 6'738'415'616);
  model.intermediate = 14336;
  model.vocabulary = 128256;
  model.kv_heads = 8;
  EXPECT_EQ(make_llama(model).layout.parameters(), 8'030'261'248);
  model = {16, 2048, 32, 8192, 128256, 2048, 1};
  model.kv_heads = 8;
  EXPECT_EQ(make_llama(model).layout.parameters(), 1'235'814'400);
}

TEST(Llama, NamesAndDecayAreThoseOfTheHuggingFaceFiles) {
  const std::set<std::string> names = test::names_with_decay_of_matrices(make_llama(shape(false)));
  EXPECT_EQ(names.size(), 1u + 3u * 9u + 2u);
  for (const char* name : {"model.embed_tokens.weight", "model.layers.0.input_layernorm.weight",
                           "model.layers.2.self_attn.q_proj.weight", "model.layers.1.self_attn.o_proj.weight",
                           "model.layers.0.post_attention_layernorm.weight", "model.layers.0.mlp.gate_proj.weight",
                           "model.layers.2.mlp.down_proj.weight", "model.norm.weight", "lm_head.weight"}) {
    EXPECT_TRUE(names.count(name)) << name;
  }
  EXPECT_EQ(test::names_with_decay_of_matrices(make_llama(shape(true))).count("lm_head.weight"), 0u);
}

TEST(Llama, ATiedTableHasTwoUsesAndAnotherOne) {
  for (const bool chunks : {false, true}) {
    const int per_use = chunks ? 4 : 1;
    const Model tied = make_llama(shape(true, chunks ? 16 : 0)), untied = make_llama(shape(false, chunks ? 16 : 0));
    EXPECT_EQ(tied.layout.uses()[0], 2 * per_use);
    EXPECT_EQ(untied.layout.uses()[0], per_use);
    EXPECT_EQ(untied.layout.uses()[1], per_use);
  }
}

TEST(Llama, TheEmbeddingHasNoPositions) {
  const Model whole = make_llama(shape(false)), chunks = make_llama(shape(false, 16));
  EXPECT_EQ(whole.embedding_layers, 1);
  EXPECT_EQ(chunks.embedding_layers, 4);
  EXPECT_EQ(chunks.head_layers, 5);
  EXPECT_EQ(chunks.blocks(), 3);
  for (int chunk = 0; chunk < 4; ++chunk) {
    EXPECT_EQ(chunks.first_token(chunk), chunk * 16);
    EXPECT_EQ(chunks.first_token(chunks.head() + 1 + chunk), chunk * 16);
  }
  for (int layer = chunks.block(1); layer <= chunks.head(); ++layer) EXPECT_EQ(chunks.first_token(layer), 0);
}

TEST(Llama, SeveralQueriesShareKeysAndValues) {
  const Model model = make_llama(shape(false));
  const auto& block = model.type(model.block(1)).forward;
  const auto& product = block.ops[1];
  EXPECT_EQ(block.value(product.inputs[1]).shape, (Shape{24 + 2 * 12, 24}));
  EXPECT_EQ(block.ops[2].kind, compiler::OpKind::rotary);
  EXPECT_EQ(block.ops[3].attributes.kv_heads, 2);
}

TEST(Llama, WiresFillTheirLayersWithoutOverlap) {
  for (const bool tied : {false, true}) {
    for (const std::int64_t chunk : {0, 16}) test::expect_wires_are_filled(make_llama(shape(tied, chunk)));
  }
}

}  // namespace
}  // namespace l2l::models

#include "models/families.h"

#include <gtest/gtest.h>

#include "compiler/ir/graph.h"
#include "tests/models/model_checks.h"

namespace l2l::models {
namespace {

using compiler::OpKind;
using compiler::Region;

TransformerShape shape(std::int64_t chunk = 0) {
  return {.layers = 3,
          .hidden = 20,  // biases of q, k and v are no multiples of the alignment
          .heads = 2,
          .intermediate = 36,
          .vocabulary = 50,
          .sequence = 10,
          .micro_batch = 2,
          .dropout = 0.1f,
          .compute = DType::bf16,
          .vocabulary_chunk = chunk};
}

// Devlin et al., 2019, without pooler and next-sentence head, and the head of Hugging Face's BertForMaskedLM:
// 109,514,298 and 335,174,458 parameters.
TEST(Bert, ParametersOfThePublishedModels) {
  EXPECT_EQ(make_bert({12, 768, 12, 3072, 30522, 512, 1, 0.1f}).layout.parameters(), 109'514'298);
  EXPECT_EQ(make_bert({24, 1024, 16, 4096, 30522, 512, 1, 0.1f}).layout.parameters(), 335'174'458);
}

TEST(Bert, NamesAndDecayAreThoseOfTheHuggingFaceFiles) {
  const std::set<std::string> names = test::names_with_decay_of_matrices(make_bert(shape()));
  EXPECT_EQ(names.size(), 5u + 3u * 16u + 5u);
  for (const char* name :
       {"bert.embeddings.word_embeddings.weight", "bert.embeddings.position_embeddings.weight",
        "bert.embeddings.token_type_embeddings.weight", "bert.embeddings.LayerNorm.bias",
        "bert.encoder.layer.2.attention.self.query.weight", "bert.encoder.layer.0.attention.self.value.bias",
        "bert.encoder.layer.1.attention.output.LayerNorm.weight", "bert.encoder.layer.1.intermediate.dense.weight",
        "bert.encoder.layer.0.output.dense.bias", "cls.predictions.bias",
        "cls.predictions.transform.LayerNorm.weight"}) {
    EXPECT_TRUE(names.count(name)) << name;
  }
}

TEST(Bert, TheNormOfTheEmbeddingIsABlockOfItsOwnType) {
  for (const std::int64_t chunk : {0, 16}) {
    const Model model = make_bert(shape(chunk));
    EXPECT_EQ(model.blocks(), 1 + 3);
    EXPECT_EQ(model.embedding_layers, chunk > 0 ? 5 : 1);
    EXPECT_EQ(model.type(model.block(1)).forward.name, "embedding norm");
    EXPECT_EQ(model.type(model.block(2)).forward.name, "block");
    EXPECT_FALSE(model.causal);
    for (int layer = 0; layer < model.head(); ++layer) EXPECT_TRUE(model.type(layer).logits.ops.empty());
    for (int layer = model.head(); layer < model.layers(); ++layer) EXPECT_FALSE(model.type(layer).logits.ops.empty());
  }
}

TEST(Bert, QueriesKeysAndValuesAreOneOperand) {
  const Model model = make_bert(shape());
  const auto& group = model.layout.groups[static_cast<std::size_t>(
      model.layout.layers[static_cast<std::size_t>(model.block(2))].parts[0].group)];
  EXPECT_EQ(group.parameters[0].shape, (Shape{20, 20}));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(group.parameters[static_cast<std::size_t>(i)].offset, i * 400);
    EXPECT_EQ(group.parameters[static_cast<std::size_t>(3 + i)].offset, 1200 + i * 20);
  }
  EXPECT_EQ(group.parameters[6].offset, 1264);  // after 60 elements, aligned
  const auto& block = model.type(model.block(2)).forward;
  EXPECT_EQ(block.value(block.ops[0].inputs[1]).shape, (Shape{60, 20}));
  EXPECT_EQ(block.value(block.ops[0].inputs[2]).shape, (Shape{60}));
}

TEST(Bert, WiresFillTheirLayersWithoutOverlap) {
  for (const std::int64_t chunk : {0, 16}) test::expect_wires_are_filled(make_bert(shape(chunk)));
}

// Each chunk of the head has rows of the table and the bias of the same tokens.
TEST(Bert, TheBiasOfTheVocabularyTravelsWithItsRows) {
  const Model model = make_bert(shape(16));
  EXPECT_EQ(model.chunks.count, 4);
  for (int chunk = 0; chunk < 4; ++chunk) {
    const auto& layer = model.layout.layers[static_cast<std::size_t>(model.head() + 1 + chunk)];
    ASSERT_EQ(layer.parts.size(), 2u);
    EXPECT_EQ(layer.parts[0].begin, chunk * 16 * 20);
    EXPECT_EQ(layer.parts[1].begin, chunk * 16);
    EXPECT_EQ(layer.parts[1].offset, model.layout.elements_of(layer.parts[0]));
  }
  EXPECT_EQ(model.layout.uses()[0], 8);  // the table, in the forward and in the backward pass
  EXPECT_EQ(model.layout.groups[1].name, "cls.predictions.bias");
  EXPECT_EQ(model.layout.uses()[1], 4);
}

TEST(Bert, AllTokensAreOfTypeZero) {
  const Model model = make_bert(shape());
  const auto& backward = model.type(0).backward;
  int tables = 0;
  for (const auto& op : backward.ops) tables += op.kind == OpKind::positions_backward && op.attributes.sequence == 1;
  EXPECT_EQ(tables, 1);
}

}  // namespace
}  // namespace l2l::models

#include "models/hub/adapter.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/refusal.h"
#include "tests/support/temporary_folder.h"

namespace l2l::models {
namespace {

using ::l2l::testing::TemporaryFolder;

LoraOptions read_adapter(const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream(folder / kAdapterConfig) << text;
  return read_adapter_config(folder / kAdapterConfig);
}

std::string refused(const std::string& text) {
  return testing::refusal([&] { read_adapter(text); });
}

TEST(AdapterConfig, IsReadAsPeftMeansIt) {
  const LoraOptions lora = read_adapter(
      R"({"peft_type": "LORA", "r": 16, "lora_alpha": 32, "lora_dropout": 0.05, "use_rslora": true, "bias": "none",
          "target_modules": ["model.layers.10.self_attn.q_proj", "model.layers.0.self_attn.q_proj", "v_proj"],
          "rank_pattern": {}, "exclude_modules": null, "use_dora": false, "modules_to_save": ["score"]})");
  EXPECT_EQ(lora.rank, 16);
  EXPECT_EQ(lora.alpha, 32);
  EXPECT_EQ(lora.dropout, 0.05);
  EXPECT_TRUE(lora.rank_stabilized);
  EXPECT_EQ(lora.targets, (std::vector<std::string>{"self_attn.q_proj", "v_proj"}));
  // PEFT's own defaults.
  const LoraOptions defaults = read_adapter(R"({"target_modules": "all-linear"})");
  EXPECT_EQ(defaults.rank, 8);
  EXPECT_EQ(defaults.alpha, 8);
  EXPECT_EQ(defaults.targets, std::vector<std::string>{"all-linear"});
}

TEST(AdapterConfig, ThatAsksForWhatIsNotBuiltIsRefusedByName) {
  const std::pair<const char*, const char*> kBad[] = {
      {R"({"peft_type": "IA3"})", "peft_type"},
      {R"({"bias": "all"})", "bias"},
      {R"({"use_dora": true})", "use_dora"},
      {R"({"rank_pattern": {"q_proj": 4}})", "rank_pattern"},
      {R"({"alpha_pattern": {"q_proj": 4}})", "alpha_pattern"},
      {R"({"layers_to_transform": [1]})", "layers_to_transform"},
      {R"({"exclude_modules": "k_proj"})", "exclude_modules"},
      {R"({"target_modules": ".*_proj"})", "target_modules"},
      {R"({"init_lora_weights": "pissa_niter_4"})", "init_lora_weights: is \"pissa_niter_4\", which takes a part"},
      {R"({"init_lora_weights": "olora"})", "path_initial_model_for_weight_conversion"},
      {R"({"target_modules": [1]})", "target_modules"},
      {R"({"r": 0})", "r"},
      {R"({"r": 99999999999})", "r"},
      {R"({"lora_dropout": 2})", "lora_dropout"},
      {R"({"lora_alpha": "8"})", "lora_alpha"},
      {R"([])", "adapter_config.json"},
      {R"({)", "adapter_config.json"},
  };
  for (const auto& [text, part] : kBad) EXPECT_NE(refused(text).find(part), std::string::npos) << text << refused(text);
}

TEST(AdapterConfig, BeginningsThatLeaveTheBaseAreTaken) {
  for (const char* const initial : {"true", "false", "\"gaussian\"", "\"eva\""}) {
    EXPECT_EQ(read_adapter(R"({"init_lora_weights": )" + std::string(initial) + "}").rank, 8) << initial;
  }
}

TEST(AdapterConfig, IsWrittenAsItIsRead) {
  const LoraOptions lora{.rank = 4, .alpha = 10, .dropout = 0.25, .targets = {"query"}, .rank_stabilized = true};
  ModelOptions model;
  model.architecture = "bert";
  model.head = "classification";
  const std::string text = adapter_config(lora, model, "/models/base", {"classifier", "pooler"});
  const LoraOptions again = read_adapter(text);
  EXPECT_EQ(again.rank, lora.rank);
  EXPECT_EQ(again.alpha, lora.alpha);
  EXPECT_EQ(again.dropout, lora.dropout);
  EXPECT_EQ(again.targets, lora.targets);
  EXPECT_EQ(again.rank_stabilized, lora.rank_stabilized);
  EXPECT_NE(text.find("\"SEQ_CLS\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"/models/base\""), std::string::npos) << text;
  EXPECT_NE(text.find("pooler"), std::string::npos) << text;
}

TEST(Lora, AdaptsModulesByTheLastPartsOfTheirNames) {
  const Lora lora{.rank = 4, .alpha = 8, .targets = {"q_proj", "output.dense"}};
  EXPECT_TRUE(lora.adapts("self_attn.q_proj"));
  EXPECT_TRUE(lora.adapts("output.dense"));
  EXPECT_TRUE(lora.adapts("attention.output.dense"));
  EXPECT_FALSE(lora.adapts("intermediate.dense"));
  EXPECT_FALSE(lora.adapts("self_attn.xq_proj"));
  EXPECT_FALSE((Lora{.rank = 0, .targets = {"q_proj"}}.adapts("q_proj")));
  EXPECT_EQ(lora.factor(), 2.0f);
  EXPECT_EQ((Lora{.rank = 4, .alpha = 8, .rank_stabilized = true}.factor()), 4.0f);
}

}  // namespace
}  // namespace l2l::models

#include "models/hub/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/json.h"
#include "l2l/errors.h"
#include "models/architecture.h"
#include "tests/support/temporary_folder.h"

namespace l2l::models {
namespace {

using ::l2l::testing::TemporaryFolder;

ModelOptions read(const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream(folder / "config.json") << text;
  return read_hub_config(folder / "config.json");
}

std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const BadInput& error) {
    return error.what();
  }
  return "(accepted)";
}

#define EXPECT_REFUSES(text, part) EXPECT_NE(refusal(text).find(part), std::string::npos) << refusal(text)

// Numbers of the configuration classes of transformers 5.23.
TEST(HubConfig, MissingKeysHaveTheirDefaults) {
  const ModelOptions llama = read(R"({"model_type": "llama"})");
  EXPECT_EQ(llama.vocabulary, 32000);
  EXPECT_EQ(llama.intermediate, 11008);
  EXPECT_EQ(llama.positions, 2048);
  EXPECT_EQ(llama.norm_epsilon, 1e-6);
  EXPECT_FALSE(llama.tie_embeddings);
  EXPECT_EQ(llama.dropout, 0);
  const ModelOptions mistral = read(R"({"model_type": "mistral"})");
  EXPECT_EQ(mistral.kv_heads, 8);
  EXPECT_EQ(mistral.sliding_window, 4096);
  EXPECT_EQ(mistral.layer_types, std::vector<std::string>{"sliding_attention"});
  EXPECT_EQ(read(R"({"model_type": "mistral", "sliding_window": null})").sliding_window, 0);
  EXPECT_EQ(read(R"({"model_type": "mistral", "num_key_value_heads": null})").kv_heads, 0);
  EXPECT_EQ(read(R"({"model_type": "qwen2"})").sliding_window, 0);
  EXPECT_EQ(read(R"({"model_type": "qwen3"})").head_dim, 128);
  const ModelOptions gemma2 = read(R"({"model_type": "gemma2"})");
  EXPECT_EQ(gemma2.attention_softcap, 50);
  EXPECT_EQ(gemma2.logit_softcap, 30);
  EXPECT_EQ(gemma2.query_scale, 256);
  EXPECT_EQ(gemma2.layer_types, (std::vector<std::string>{"sliding_attention", "full_attention"}));
  EXPECT_TRUE(gemma2.tie_embeddings);
  const ModelOptions gemma3 = read(R"({"model_type": "gemma3_text"})");
  EXPECT_EQ(gemma3.rope_theta, 1e6);
  EXPECT_EQ(gemma3.rope_local_theta, 1e4);
  EXPECT_EQ(gemma3.attention_softcap, 0);
  EXPECT_EQ(gemma3.layer_types.size(), 6u);
  EXPECT_EQ(read(R"({"model_type": "gpt2"})").positions, 1024);
  EXPECT_EQ(read(R"({"model_type": "bert"})").vocabulary, 30522);
  EXPECT_EQ(read(R"({"model_type": "roberta"})").padding_token, 1);
}

// transformers 4 and 5 write the same positions differently.
TEST(HubConfig, EverySpellingOfPositionsIsRead) {
  const char* const spellings[] = {
      R"({"model_type": "llama", "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0}})",
      R"({"model_type": "llama", "rope_theta": 500000.0, "rope_scaling": {"rope_type": "linear", "factor": 4}})",
      R"({"model_type": "llama", "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500000.0}})",
      R"({"model_type": "llama", "rope_scaling": {},
          "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500000.0}})"};
  for (const char* const text : spellings) {
    const ModelOptions model = read(text);
    EXPECT_EQ(model.rope_scaling, "linear") << text;
    EXPECT_EQ(model.rope_factor, 4) << text;
    EXPECT_EQ(model.rope_theta, 500000) << text;
  }
  const ModelOptions outer = read(R"({"model_type": "llama", "original_max_position_embeddings": 512, "rope_scaling":
      {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024, "mscale": 1.0,
       "mscale_all_dim": 1.0}})");
  EXPECT_EQ(outer.rope_original_positions, 512);
  EXPECT_EQ(outer.rope_attention_factor, 1);
  const ModelOptions old = read(R"({"model_type": "gemma3_text", "rope_theta": 2e6, "rope_local_base_freq": 3e4,
      "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "sliding_window_pattern": 3})");
  const ModelOptions nested = read(R"({"model_type": "gemma3_text", "rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 2e6},
      "sliding_attention": {"rope_type": "default", "rope_theta": 3e4}}, "sliding_window_pattern": 3})");
  const ModelOptions both = read(R"({"model_type": "gemma3_text", "rope_scaling": {}, "rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 2e6},
      "sliding_attention": {"rope_type": "default", "rope_theta": 3e4}}, "sliding_window_pattern": 3})");
  const ModelOptions inner = read(R"({"model_type": "gemma3_text", "rope_theta": 4e6, "rope_local_base_freq": 3e4,
      "rope_scaling": {"rope_type": "linear", "factor": 8.0, "rope_theta": 2e6}, "sliding_window_pattern": 3})");
  for (const ModelOptions& model : {old, nested, both, inner}) {
    EXPECT_EQ(model.rope_theta, 2e6);
    EXPECT_EQ(model.rope_local_theta, 3e4);
    EXPECT_EQ(model.rope_factor, 8);
    EXPECT_EQ(model.layer_types.size(), 3u);
  }
}

// Peng et al. (2023), section 3.4, and transformers' two further keys: a ratio of two such factors.
TEST(HubConfig, YarnScalesAttentionByTheFactorOfItsPaper) {
  const auto yarn = [](const std::string& more) {
    return read(R"({"model_type": "llama", "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
                    "original_max_position_embeddings": 1024)" +
                more + "}}");
  };
  EXPECT_DOUBLE_EQ(yarn("").rope_attention_factor, 0.1 * std::log(4.0) + 1);
  EXPECT_DOUBLE_EQ(yarn(R"(, "mscale": 2.0, "mscale_all_dim": 0.5)").rope_attention_factor,
                   (0.2 * std::log(4.0) + 1) / (0.05 * std::log(4.0) + 1));
  EXPECT_DOUBLE_EQ(yarn(R"(, "mscale": 2.0)").rope_attention_factor, 0.1 * std::log(4.0) + 1) << "both, or neither";
  EXPECT_EQ(yarn(R"(, "attention_factor": 1.5, "mscale": 2.0, "mscale_all_dim": 0.5)").rope_attention_factor, 1.5);
  EXPECT_EQ(yarn("").rope_beta_fast, 32);
  EXPECT_EQ(yarn("").rope_beta_slow, 1);
  EXPECT_EQ(yarn(R"(, "beta_fast": 16, "beta_slow": 2)").rope_beta_fast, 16);
  EXPECT_EQ(yarn(R"(, "beta_fast": 16, "beta_slow": 2)").rope_beta_slow, 2);
  EXPECT_FALSE(yarn(R"(, "truncate": false)").rope_truncate);
}

TEST(HubConfig, BoundsBelongToTheirRange) {
  const auto epsilon = [](const std::string& value) {
    return R"({"model_type": "gpt2", "layer_norm_epsilon": )" + value + "}";
  };
  EXPECT_EQ(read(epsilon("1")).norm_epsilon, 1);
  EXPECT_EQ(read(epsilon("1e-37")).norm_epsilon, 1e-37);
  EXPECT_REFUSES(epsilon("1.0000001"), "layer_norm_epsilon: expected a number from 1e-37 to 1.0");
  EXPECT_REFUSES(epsilon("9e-38"), "layer_norm_epsilon: expected a number from 1e-37 to 1.0");
}

// Options have 0 for the architecture's own; transformers compute with it.
TEST(HubConfig, ZeroIsNotWhatIsLeftOut) {
  EXPECT_REFUSES(R"({"model_type": "gpt2", "layer_norm_epsilon": 0})", "layer_norm_epsilon: expected a number");
  EXPECT_REFUSES(R"({"model_type": "bert", "layer_norm_eps": 0.0})", "layer_norm_eps: expected a number");
  EXPECT_REFUSES(R"({"model_type": "llama", "rms_norm_eps": 0.0})", "rms_norm_eps: expected a number");
  for (const std::string key : {"attention_factor", "factor"}) {
    EXPECT_REFUSES(R"({"model_type": "llama", "rope_parameters": {"rope_type": "yarn", ")" + key + R"(": 0.0}})",
                   "rope_parameters." + key + ": expected a number");
  }
}

TEST(HubConfig, NestedTooDeep) {
  const auto nested = [](std::size_t lists) {
    return R"({"model_type": )" + std::string(lists, '[') + R"("[{\"[")" + std::string(lists, ']') + "}";
  };
  EXPECT_REFUSES(nested(kMostJsonNesting - 1), "model_type: expected a string, found [[");
  for (const std::size_t lists : {std::size_t{kMostJsonNesting}, std::size_t{1'000'000}}) {
    EXPECT_REFUSES(nested(lists), "config.json: is nested deeper than 128 levels");
  }
}

TEST(HubConfig, LayersOfTwoKindsAreAPeriod) {
  const ModelOptions window = read(R"({"model_type": "qwen2", "num_hidden_layers": 4, "use_sliding_window": true,
      "max_window_layers": 3})");
  EXPECT_EQ(window.layer_types,
            (std::vector<std::string>{"full_attention", "full_attention", "full_attention", "sliding_attention"}));
  const ModelOptions given = read(R"({"model_type": "gemma2", "num_hidden_layers": 4, "layer_types":
      ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]})");
  EXPECT_EQ(given.layer_types, (std::vector<std::string>{"full_attention", "sliding_attention"}));
  const ModelOptions pattern = read(R"({"model_type": "gemma2", "sliding_window_pattern": 3})");  // a key of gemma3's
  EXPECT_EQ(pattern.layer_types, (std::vector<std::string>{"sliding_attention", "full_attention"}));
}

TEST(HubConfig, LayersOfAMistralModelSlideAsTheirListSays) {
  const ModelOptions mixed =
      read(R"({"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": 5, "layer_types":
      ["full_attention", "sliding_attention"]})");
  EXPECT_EQ(mixed.layer_types, (std::vector<std::string>{"full_attention", "sliding_attention"}));
  EXPECT_EQ(parse_json(hub_config(mixed, ""))["layer_types"].size(), 2u);
  const ModelOptions all = read(R"({"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": 5})");
  EXPECT_FALSE(parse_json(hub_config(all, "")).contains("layer_types"));
}

// Of "num_labels" beside "id2label", transformers takes the former.
TEST(HubConfig, TheNumberOfClassesIsThatOfTheirNames) {
  ModelOptions model;
  model.architecture = "bert";
  model.sequence = 32;
  model.head = "classification";
  model.labels = 3;
  EXPECT_FALSE(parse_json(hub_config(model, R"({"num_labels": 2})")).contains("num_labels"));
}

TEST(HubConfig, WhatIsNotBuiltIsRefused) {
  const auto llama = [](const std::string& more) { return R"({"model_type": "llama", )" + more + "}"; };
  EXPECT_REFUSES(R"({"model_type": "mixtral"})", "model_type: \"mixtral\" is not built; built are gpt2");
  EXPECT_REFUSES(R"({"model_type": "gemma3"})", "image encoder");
  EXPECT_REFUSES("{}", "model_type: is missing");
  EXPECT_REFUSES(llama(R"("quantization_config": {"bits": 4})"), "quantization_config");
  EXPECT_REFUSES(llama(R"("auto_map": {})"), "auto_map");
  EXPECT_REFUSES(llama(R"("num_local_experts": 8)"), "num_local_experts: a mixture of experts is not built");
  EXPECT_REFUSES(llama(R"("per_layer_config": {"1": {"num_key_value_heads": 2}})"), "per_layer_config");
  EXPECT_EQ(refusal(llama(R"("per_layer_config": {})")), "(accepted)");
  EXPECT_REFUSES(llama(R"("is_causal": false)"), "is_causal: false is not built");
  EXPECT_REFUSES(R"({"model_type": "gpt2", "is_causal": false})", "is_causal: false is not built");
  EXPECT_EQ(refusal(R"({"model_type": "bert", "is_causal": false})"), "(accepted)");
  EXPECT_REFUSES(llama(R"("hidden_act": "relu2")"), "hidden_act: the activation \"relu2\" is not built");
  EXPECT_REFUSES(llama(R"("attention_dropout": 0.1)"), "attention_dropout");
  EXPECT_REFUSES(llama(R"("partial_rotary_factor": 0.5)"), "partial_rotary_factor");
  EXPECT_REFUSES(llama(R"("rope_scaling": {"rope_type": "longrope", "factor": 4})"), "\"longrope\" is not built");
  EXPECT_REFUSES(llama(R"("rope_scaling": {"rope_type": "linear"})"), "rope_scaling.factor: is missing");
  EXPECT_REFUSES(llama(R"("rope_scaling": {"rope_type": "llama3", "factor": 8})"), "low_freq_factor: is missing");
  EXPECT_REFUSES(llama(R"("rope_scaling": 3)"), "rope_scaling: expected an object, found 3");
  EXPECT_REFUSES(llama(R"("hidden_size": "big")"), "hidden_size: expected an integer from 1");
  EXPECT_REFUSES(llama(R"("hidden_size": -4)"), "hidden_size: expected an integer from 1");
  EXPECT_REFUSES(llama(R"("hidden_size": 1e30)"), "hidden_size: expected an integer from 1");
  EXPECT_REFUSES(llama(R"("hidden_size": 18446744073709551615)"), "hidden_size: expected an integer");
  EXPECT_REFUSES(llama(R"("rms_norm_eps": NaN)"), "is not a JSON object");
  EXPECT_REFUSES(llama(R"("hidden_size": 100, "num_attention_heads": 3)"), "is not divisible by model.heads = 3");
  EXPECT_REFUSES(llama(R"("num_key_value_heads": 5)"), "is not divisible by model.kv_heads = 5");
  EXPECT_REFUSES(llama(R"("tie_word_embeddings": "yes")"), "tie_word_embeddings: expected true or false");
  EXPECT_REFUSES(R"({"model_type": "gpt2", "resid_pdrop": 0.2})", "embd_pdrop: is another than resid_pdrop");
  EXPECT_REFUSES(R"({"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": true})", "scale_attn_by_inverse");
  EXPECT_REFUSES(R"({"model_type": "gpt2", "scale_attn_weights": false})", "scale_attn_weights");
  EXPECT_REFUSES(R"({"model_type": "bert", "is_decoder": true})", "is_decoder");
  EXPECT_REFUSES(R"({"model_type": "bert", "position_embedding_type": "relative_key"})", "position_embedding_type");
  EXPECT_REFUSES(R"({"model_type": "gemma3_text", "use_bidirectional_attention": true})",
                 "use_bidirectional_attention");
  EXPECT_REFUSES(R"({"model_type": "gemma2", "num_hidden_layers": 2, "layer_types": ["full_attention"]})",
                 "layer_types: has 1 entries for 2 layers");
  EXPECT_REFUSES(R"({"model_type": "gemma3_text", "attn_logit_softcapping": 50})",
                 "attn_logit_softcapping: transformers computes a gemma3 model without it");
  EXPECT_REFUSES(
      R"({"model_type": "bert", "architectures": ["BertForTokenClassification"], "classifier_dropout": 0.5})",
      "classifier_dropout: is another than hidden_dropout_prob");
  EXPECT_EQ(refusal(R"({"model_type": "bert", "classifier_dropout": 0.5})"), "(accepted)");  // of no head
  const auto of_tokens = [](const std::string& type, const std::string& more) {
    return R"({"model_type": ")" + type + R"(", "architectures": ["AnyForTokenClassification"])" + more + "}";
  };
  EXPECT_REFUSES(of_tokens("gpt2", R"(, "classifier_dropout": 0.5)"),
                 "classifier_dropout: is another than resid_pdrop");
  EXPECT_REFUSES(of_tokens("qwen3", R"(, "classifier_dropout": 0.1)"), "classifier_dropout: a head for tokens without");
  EXPECT_REFUSES(of_tokens("llama", R"(, "classifier_dropout": null, "hidden_dropout": 0.1)"),
                 "hidden_dropout: a head for tokens without dropout");
  EXPECT_EQ(refusal(of_tokens("llama", R"(, "classifier_dropout": 0, "hidden_dropout": 0.1)")), "(accepted)");
  EXPECT_EQ(refusal(of_tokens("gpt2", R"(, "classifier_dropout": 0.1)")), "(accepted)");
  EXPECT_REFUSES(of_tokens("qwen3", R"(, "token_classification_bias": false)"), "token_classification_bias: false");
  EXPECT_EQ(refusal(of_tokens("gpt2", R"(, "token_classification_bias": false)")), "(accepted)");  // always has one
  EXPECT_EQ(refusal(of_tokens("llama", "")), "(accepted)");
  EXPECT_EQ(refusal(R"({"model_type": "llama", "architectures": ["LlamaForSequenceClassification"],
                        "classifier_dropout": 0.5})"),
            "(accepted)");  // transformers' class does not read it
  EXPECT_REFUSES(R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"],
                     "problem_type": "multi_label_classification"})",
                 "problem_type: several classes for one text are not built");
  EXPECT_REFUSES("[]", "is not a JSON object");
  EXPECT_EQ(refusal(llama(R"("hidden_size": 4096.0)")), "(accepted)");
}

// What is written is read back to the same model, and keys that are not the model's stay.
TEST(HubConfig, RoundTrips) {
  for (const Architecture& architecture : architectures()) {
    ModelOptions model;
    model.architecture = architecture.name;
    model.layers = 6;
    model.sequence = 32;
    model.positions = 64;
    if (!architecture.learned_positions) model.dropout = 0, model.kv_heads = 2, model.head_dim = 32;
    if (architecture.slides) model.sliding_window = 9;
    if (architecture.soft_caps) model.logit_softcap = 5, model.query_scale = 24;
    if (architecture.name == "gemma2") model.attention_softcap = 5;
    if (!architecture.learned_positions) model.rope_scaling = "yarn", model.rope_factor = 4;
    const std::string text = hub_config(model, R"({"bos_token_id": 7, "hidden_size": 3, "custom": "kept"})");
    const ModelOptions again = read(text);
    const nlohmann::json json = parse_json(text);
    EXPECT_EQ(json["custom"], "kept");
    EXPECT_EQ(json["bos_token_id"], 7);
    EXPECT_EQ(json["torch_dtype"], "float32");
    const ModelOptions a = with_defaults(model), b = with_defaults(again);
    EXPECT_EQ(hub_config(a, ""), hub_config(b, "")) << architecture.name;
    EXPECT_EQ(a.layers, b.layers) << architecture.name;
    EXPECT_EQ(a.hidden, b.hidden) << architecture.name;
    EXPECT_EQ(a.heads, b.heads) << architecture.name;
    EXPECT_EQ(a.kv_heads, b.kv_heads) << architecture.name;
    EXPECT_EQ(a.head_dim, b.head_dim) << architecture.name;
    EXPECT_EQ(a.intermediate, b.intermediate) << architecture.name;
    EXPECT_EQ(a.positions, b.positions) << architecture.name;
    EXPECT_EQ(a.vocabulary, b.vocabulary) << architecture.name;
    EXPECT_EQ(a.rope_factor, b.rope_factor) << architecture.name;
    EXPECT_EQ(a.layer_types, b.layer_types);
    EXPECT_EQ(a.rope_attention_factor, b.rope_attention_factor);
    EXPECT_EQ(a.dropout, b.dropout);
  }
}

// Every head that a family has is read back, with the names of its classes; a head of tokens has none. What the
// original says of another head is not kept.
TEST(HubConfig, HeadsRoundTrip) {
  for (const Architecture& architecture : architectures()) {
    for (const char* const head : {"classification", "regression", "tokens", "choice"}) {
      ModelOptions model;
      model.architecture = architecture.name;
      model.sequence = 32;
      model.positions = 64;
      if (!architecture.learned_positions) model.dropout = 0;
      model.head = head;
      const bool classes = model.head == "classification" || model.head == "tokens";
      if (classes) model.labels = 3, model.label_names = {"O", "B-X", "I-X"};
      try {
        check_model(model);
      } catch (const BadInput&) {
        EXPECT_TRUE(model.head == "choice" ? !architecture.encoder : architecture.name == "gemma3") << head;
        continue;
      }
      const std::string text = hub_config(model, R"({"id2label": {"0": "other", "1": "names"},
          "classifier_dropout": 0.3, "hidden_dropout": 0.3, "token_classification_bias": false})");
      const ModelOptions again = read(text);
      const bool drops_out = architecture.encoder || model.head == "tokens";
      EXPECT_EQ(parse_json(text)["classifier_dropout"], drops_out ? model.dropout : 0.3) << architecture.name;
      EXPECT_EQ(again.head, head) << architecture.name;
      EXPECT_EQ(again.label_names, model.label_names);
      if (classes) {
        EXPECT_EQ(again.labels, 3);
      }
    }
  }
}

TEST(HubConfig, NamesOfClassesAreTheDirectorysWhereOptionsHaveNone) {
  const std::string bert = R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"], )";
  const ModelOptions model = read(bert + R"("id2label": {"0": "no", "1": "yes"}})");
  EXPECT_EQ(model.label_names, (std::vector<std::string>{"no", "yes"}));
  EXPECT_TRUE(read(bert + R"("id2label": {"0": "LABEL_0", "1": "LABEL_1"}})").label_names.empty());
  EXPECT_EQ(read(bert + R"("id2label": {"0": "LABEL_0"}})").head, "regression");
  EXPECT_REFUSES(bert + R"("problem_type": "regression", "id2label": {"0": "a", "1": "b"}})",
                 "problem_type: is \"regression\" of several numbers");
}

}  // namespace
}  // namespace l2l::models

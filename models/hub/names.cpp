#include "models/hub/names.h"

#include <array>
#include <string_view>
#include <utility>

namespace l2l::models {
namespace {

// What the names of the base model's parameters begin with.
std::string prefix_of(const Architecture& architecture) {
  if (architecture.name == "gpt2") return "transformer.";
  return architecture.encoder ? std::string(architecture.name) + "." : "model.";
}

// Of embeddings and head: the table's name in each.
std::pair<std::string, std::string> tables_of(const Architecture& architecture) {
  if (architecture.name == "gpt2") return {"wte.weight", "lm_head.weight"};
  if (architecture.name == "bert") {
    return {"bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"};
  }
  if (architecture.name == "roberta") {
    return {"roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"};
  }
  return {"model.embed_tokens.weight", "lm_head.weight"};
}

// Replaces the end of a name; empty where it has another.
std::string with_end(const std::string& name, std::string_view end, std::string_view other) {
  if (!name.ends_with(end)) return {};
  return name.substr(0, name.size() - end.size()) + std::string(other);
}

}  // namespace

std::string hub_name(const Architecture& architecture, const std::string& parameter) {
  if (architecture.name != "gpt2" || belongs_to_head(parameter)) return parameter;
  return prefix_of(architecture) + parameter;
}

std::vector<std::string> names_in_files(const Architecture& architecture, const std::string& parameter, bool tied) {
  const std::string prefix = prefix_of(architecture);
  std::vector<std::string> names{parameter};
  if (architecture.name == "gpt2") names.push_back(prefix + parameter);
  if (parameter.starts_with(prefix)) names.push_back(parameter.substr(prefix.size()));
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kOlder = {
      {{"LayerNorm.weight", "LayerNorm.gamma"},
       {"LayerNorm.bias", "LayerNorm.beta"},
       {"cls.predictions.bias", "cls.predictions.decoder.bias"},
       {"cls.predictions.decoder.bias", "cls.predictions.bias"},
       {"lm_head.bias", "lm_head.decoder.bias"},
       {"lm_head.decoder.bias", "lm_head.bias"}}};
  for (std::size_t i = 0, own = names.size(); i < own; ++i) {
    for (const auto& [end, other] : kOlder) {
      if (std::string older = with_end(names[i], end, other); !older.empty()) names.push_back(std::move(older));
    }
  }
  const auto [embedding, head] = tables_of(architecture);
  if (tied && parameter == embedding) names.push_back(head);
  return names;
}

bool belongs_to_head(const std::string& parameter) {
  for (const std::string_view begin :
       {"lm_head.", "cls.", "score.", "classifier.", "bert.pooler.", "roberta.pooler."}) {
    if (parameter.starts_with(begin)) return true;
  }
  return false;
}

bool tells_classes(const std::string& parameter) {
  return parameter == "classifier.weight" || parameter == "classifier.bias" || parameter.starts_with("score.") ||
         parameter.starts_with("classifier.out_proj.");
}

bool predicts_tokens(const std::string& tensor) { return tensor.starts_with("lm_head.") || tensor.starts_with("cls."); }

bool is_of_other_head(const std::string& tensor) {
  return tensor.starts_with("qa_outputs.") || tensor.starts_with("multiple_choice_head.");
}

bool is_unused(const std::string& tensor) {
  for (const std::string_view end :
       {".attn.bias", ".attn.masked_bias", "position_ids", "token_type_ids", "rotary_emb.inv_freq"}) {
    if (tensor.ends_with(end)) return true;
  }
  return tensor.find("pooler.dense.") != std::string::npos || tensor.starts_with("cls.seq_relationship.");
}

}  // namespace l2l::models

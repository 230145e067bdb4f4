#include "text/post_processor.h"

#include <algorithm>

namespace l2l::text {
namespace {

// [TOKEN, ID]
TokenId id_of_pair(const JsonReader& json, const char* field) {
  const nlohmann::json& pair = json.at(field);
  const bool good = pair.is_array() && pair.size() == 2 && pair[1].is_number_unsigned() &&
                    pair[1].get<std::uint64_t>() < static_cast<std::uint64_t>(kMostTokens);
  if (!good) json.refuse(std::string(field) + ": expected [TOKEN, ID]");
  return pair[1].get<TokenId>();
}

using PairPart = SurroundingTokens::Part;

void append_special(const JsonReader& json, const std::string& name, std::vector<TokenId>& ids) {
  const JsonReader token = json.object("special_tokens").object(name.c_str());
  for (const nlohmann::json& id : token.at("ids")) {
    const bool good = id.is_number_unsigned() && id.get<std::uint64_t>() < static_cast<std::uint64_t>(kMostTokens);
    if (!good) json.refuse("special_tokens: the ids of " + json_text(nlohmann::json(name)) + " are not a list of ids");
    ids.push_back(id.get<TokenId>());
  }
}

// Empty, where the template is, or lacks one of the texts: then there are no pairs.
std::vector<PairPart> read_pair(const JsonReader& json) {
  std::vector<PairPart> pair;
  if (json.find("pair") == nullptr) return pair;
  constexpr std::int64_t kMostTypes = 1 << 16;
  for (const JsonReader& part : json.objects("pair")) {
    if (part.find("Sequence") != nullptr) {
      const JsonReader text = part.object("Sequence");
      const std::string id = text.string("id");
      if (id != "A" && id != "B") text.refuse("id: expected \"A\" or \"B\"");
      pair.push_back(
          {.text = id == "A" ? 0 : 1, .type = static_cast<std::int32_t>(text.integer("type_id", kMostTypes))});
      continue;
    }
    const JsonReader special = part.object("SpecialToken");
    std::vector<TokenId> ids;
    append_special(json, special.string("id"), ids);
    const auto type = static_cast<std::int32_t>(special.integer("type_id", kMostTypes));
    for (const TokenId id : ids) pair.push_back({.token = id, .type = type});
  }
  for (const int text : {0, 1}) {
    if (std::none_of(pair.begin(), pair.end(), [&](const PairPart& part) { return part.text == text; })) return {};
  }
  return pair;
}

SurroundingTokens read_template(const JsonReader& json) {
  SurroundingTokens tokens;
  int texts = 0;
  for (const JsonReader& part : json.objects("single")) {
    if (part.find("Sequence") != nullptr) {
      ++texts;
    } else {
      append_special(json, part.object("SpecialToken").string("id"), texts == 0 ? tokens.before : tokens.behind);
    }
  }
  if (texts != 1) json.refuse("single: expected one Sequence");
  tokens.pair = read_pair(json);
  return tokens;
}

// What a pair of texts becomes in a tokenizer that was written for single ones is the default: one behind the other.
bool has_pair(const SurroundingTokens& tokens) { return tokens.pair.size() > 2; }

std::vector<PairPart> pair_of_bert(TokenId cls, TokenId sep) {
  return {{.token = cls}, {.text = 0}, {.token = sep}, {.text = 1, .type = 1}, {.token = sep, .type = 1}};
}

std::vector<PairPart> pair_of_roberta(TokenId cls, TokenId sep) {
  return {{.token = cls}, {.text = 0}, {.token = sep}, {.token = sep}, {.text = 1}, {.token = sep}};
}

SurroundingTokens read_sequence(const JsonReader& json) {
  SurroundingTokens all;
  for (const JsonReader& part : json.objects("processors")) {
    const SurroundingTokens own = read_post_processor(part);
    all.before.insert(all.before.begin(), own.before.begin(), own.before.end());
    all.behind.insert(all.behind.end(), own.behind.begin(), own.behind.end());
    if (has_pair(own)) all.pair = own.pair;
  }
  return all;
}

}  // namespace

SurroundingTokens read_post_processor(const JsonReader& json) {
  const std::string type = json.type();
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return read_template(json);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    const TokenId cls = id_of_pair(json, "cls"), sep = id_of_pair(json, "sep");
    return {{cls}, {sep}, type == "BertProcessing" ? pair_of_bert(cls, sep) : pair_of_roberta(cls, sep)};
  }
  if (type == "Sequence") return read_sequence(json);
  json.refuse("the post-processor \"" + type + "\" is not supported");
}

}  // namespace l2l::text

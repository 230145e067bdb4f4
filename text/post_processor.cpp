#include "text/post_processor.h"

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

void append_special(const JsonReader& json, const std::string& name, std::vector<TokenId>& ids) {
  const nlohmann::json& list = json.object("special_tokens").object(name.c_str()).at("ids");
  for (const nlohmann::json& id : list) {
    const bool good = id.is_number_unsigned() && id.get<std::uint64_t>() < static_cast<std::uint64_t>(kMostTokens);
    if (!good) json.refuse("special_tokens: the ids of " + json_text(nlohmann::json(name)) + " are not a list of ids");
    ids.push_back(id.get<TokenId>());
  }
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
  return tokens;
}

SurroundingTokens read_sequence(const JsonReader& json) {
  SurroundingTokens all;
  for (const JsonReader& part : json.objects("processors")) {
    const SurroundingTokens own = read_post_processor(part);
    all.before.insert(all.before.begin(), own.before.begin(), own.before.end());
    all.behind.insert(all.behind.end(), own.behind.begin(), own.behind.end());
  }
  return all;
}

}  // namespace

SurroundingTokens read_post_processor(const JsonReader& json) {
  const std::string type = json.type();
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return read_template(json);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return {{id_of_pair(json, "cls")}, {id_of_pair(json, "sep")}};
  }
  if (type == "Sequence") return read_sequence(json);
  json.refuse("the post-processor \"" + type + "\" is not supported");
}

}  // namespace l2l::text

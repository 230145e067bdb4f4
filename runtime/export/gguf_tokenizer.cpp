#include "runtime/export/gguf_tokenizer.h"

#include <optional>

#include "base/json.h"
#include "core/files.h"
#include "l2l/errors.h"
#include "models/hub/config_reader.h"
#include "runtime/data/chat_templates.h"
#include "text/listed_tokenizer.h"

namespace l2l::runtime {
namespace {

namespace fs = std::filesystem;
using formats::GgufMetadata;
using text::ListedTokenizer;
using text::ListedType;

const std::string kPrefix = "tokenizer.ggml.";
constexpr Bytes kMostBytes = 256 << 20;  // of settings

// An empty object where there is no such file.
nlohmann::json read_object(const fs::path& file) {
  if (!is_there(file)) return nlohmann::json::object();
  return models::read_json_object(file, kMostBytes, "a model directory's settings");
}

// Of a member of an object; empty: there is none, or it is no text.
std::string text_in(const nlohmann::json& json, const char* key) {
  const auto value = json.is_object() ? json.find(key) : json.end();
  return value != json.end() && value->is_string() ? value->get<std::string>() : std::string();
}

// Of the model's vocabulary, which may be larger than the tokenizer's: the rest is never used.
void fill_holes(ListedTokenizer& listed, const std::string& tokenizer, std::int64_t vocabulary) {
  if (static_cast<std::int64_t>(listed.tokens.size()) > vocabulary) {
    throw BadInput(tokenizer + ": has " + std::to_string(listed.tokens.size()) +
                   " tokens, but model.vocabulary = " + std::to_string(vocabulary) +
                   "; gguf files have one row of the table for each: take the model's own tokenizer");
  }
  listed.tokens.resize(static_cast<std::size_t>(vocabulary));
  for (std::size_t id = 0; id < listed.tokens.size(); ++id) {
    text::ListedToken& token = listed.tokens[id];
    if (token.type == ListedType::unused && token.text.empty()) token.text = "[PAD" + std::to_string(id) + "]";
  }
}

void add_tokens(const ListedTokenizer& listed, GgufMetadata& metadata) {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  for (const text::ListedToken& token : listed.tokens) {
    texts.push_back(token.text);
    scores.push_back(token.score);
    types.push_back(static_cast<std::int32_t>(token.type));
  }
  metadata.emplace_back(kPrefix + "model", std::string(listed.bytes ? "gpt2" : "llama"));
  metadata.emplace_back(kPrefix + "pre", listed.bytes ? listed.pre : "default");
  metadata.emplace_back(kPrefix + "tokens", std::move(texts));
  metadata.emplace_back(kPrefix + "token_type", std::move(types));
  if (listed.bytes) {
    metadata.emplace_back(kPrefix + "merges", listed.merges);
  } else {
    metadata.emplace_back(kPrefix + "scores", std::move(scores));
    metadata.emplace_back(kPrefix + "add_space_prefix", listed.space_first);
  }
}

// What the directory's files say of special tokens.
class SpecialTokens {
 public:
  SpecialTokens(const ListedTokenizer& listed, const fs::path& folder)
      : listed_(listed),
        folder_(folder),
        config_(read_object(folder / "tokenizer_config.json")),
        model_(read_object(folder / "config.json")) {}

  // By the token's text, or else by its number, of which the first of several counts.
  std::optional<std::uint32_t> find(const std::string& name) const {
    const std::string text = special_token(folder_, (name + "_token").c_str());
    for (std::size_t id = 0; !text.empty() && id < listed_.tokens.size(); ++id) {
      if (listed_.tokens[id].text == text) return static_cast<std::uint32_t>(id);
    }
    auto id = model_.find(name + "_token_id");
    if (id == model_.end()) return std::nullopt;
    const nlohmann::json& number = id->is_array() && !id->empty() ? id->front() : *id;
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= listed_.tokens.size()) return std::nullopt;
    return number.get<std::uint32_t>();
  }

  // Whether a token is put before ("bos") or behind ("eos") a text.
  bool adds(const std::string& name, const std::optional<text::TokenId>& put) const {
    if (listed_.says_surrounding) return put.has_value();
    const auto says = config_.find("add_" + name + "_token");
    if (says != config_.end() && says->is_boolean()) return says->get<bool>();
    return name == "bos" && !listed_.bytes;  // as transformers' class for SentencePiece models does
  }

  // A template, or the "default" one of several with names; empty: none.
  std::string chat_template() const {
    const fs::path file = folder_ / "chat_template.jinja";
    if (is_there(file)) return InputFile(file).text();
    const auto found = config_.find("chat_template");
    if (found == config_.end()) return {};
    if (found->is_string()) return found->get<std::string>();
    if (!found->is_array()) return {};
    for (const nlohmann::json& each : *found) {
      if (text_in(each, "name") == "default") return text_in(each, "template");
    }
    return {};
  }

 private:
  const ListedTokenizer& listed_;
  const fs::path folder_;
  const nlohmann::json config_, model_;
};

void add_special_tokens(const ListedTokenizer& listed, const fs::path& folder, GgufMetadata& metadata) {
  const SpecialTokens special(listed, folder);
  const auto add_id = [&](const char* key, std::optional<std::uint32_t> id) {
    if (id) metadata.emplace_back(kPrefix + key, *id);
  };
  const auto or_put = [](std::optional<text::TokenId> put, std::optional<std::uint32_t> found) {
    return put ? std::optional(static_cast<std::uint32_t>(*put)) : found;
  };
  // What is put around a text is, for llama.cpp, the token of its beginning and that of its end.
  add_id("bos_token_id", or_put(listed.before, special.find("bos")));
  add_id("eos_token_id", or_put(listed.behind, special.find("eos")));
  add_id("unknown_token_id", or_put(listed.unknown, special.find("unk")));
  add_id("padding_token_id", special.find("pad"));
  metadata.emplace_back(kPrefix + "add_bos_token", special.adds("bos", listed.before));
  metadata.emplace_back(kPrefix + "add_eos_token", special.adds("eos", listed.behind));
  if (std::string chat = special.chat_template(); !chat.empty()) {
    metadata.emplace_back("tokenizer.chat_template", std::move(chat));
  }
}

}  // namespace

void add_gguf_tokenizer(const std::string& tokenizer, const fs::path& folder, std::int64_t vocabulary,
                        GgufMetadata& metadata, std::vector<std::string>& remarks) {
  const bool bytes = tokenizer == "bytes" && vocabulary == 256;
  if (tokenizer.empty() || (tokenizer == "bytes" && !bytes)) {
    metadata.emplace_back(kPrefix + "model", std::string("none"));
    remarks.push_back(folder.string() + " has no tokenizer, so the file has none: give token numbers to what reads it");
    return;
  }
  ListedTokenizer listed = bytes ? text::list_bytes() : text::list_tokenizer(tokenizer);
  for (const std::string& remark : listed.remarks) remarks.push_back(tokenizer + " " + remark);
  fill_holes(listed, tokenizer, vocabulary);
  add_tokens(listed, metadata);
  add_special_tokens(listed, folder, metadata);
}

}  // namespace l2l::runtime

#include "l2l/errors.h"
#include "text/byte_characters.h"
#include "text/listed_tokenizer.h"
#include "text/post_processor.h"
#include "text/tokenizer_files.h"
#include "text/vocabulary_files.h"

namespace l2l::text {
namespace {

constexpr std::string_view kSpace = "\u2581";
std::string merge_text(const nlohmann::json& merge, const JsonReader& model) {
  if (merge.is_string()) return merge.get<std::string>();
  const std::string left = merge.at(0).get<std::string>(), right = merge.at(1).get<std::string>();
  if ((left + right).find(' ') != std::string::npos) model.refuse("a merge has a space" + std::string(kNotInLists));
  return left + ' ' + right;
}

// open_tokenizer() has checked their form.
std::vector<std::string> read_merges(const JsonReader& model) {
  std::vector<std::string> merges;
  for (const nlohmann::json& merge : model.at("merges")) merges.push_back(merge_text(merge, model));
  return merges;
}

bool is_byte_token(const Vocabulary& vocabulary, const std::string& text) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::optional<TokenId> id = vocabulary.find_byte(static_cast<unsigned char>(byte));
    if (id && *vocabulary.token(*id) == text) return true;
  }
  return false;
}

void put_vocabulary(ListedTokenizer& listed, const Vocabulary& vocabulary) {
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string* const text = vocabulary.token(id);
    if (text == nullptr) continue;
    const bool byte = !listed.bytes && text->size() == 6 && is_byte_token(vocabulary, *text);
    put(listed, id, *text, byte ? ListedType::byte : ListedType::normal);
  }
}

void put_added(ListedTokenizer& listed, const JsonReader& json, const Vocabulary& vocabulary) {
  if (json.find("added_tokens") == nullptr) return;
  for (const JsonReader& entry : json.objects("added_tokens")) {
    AddedToken token = read_added_token(entry);
    const TokenId own = static_cast<TokenId>(entry.integer("id", kMostTokens - 1));
    token.id = vocabulary.find(token.content).value_or(own);
    put_added(listed, token, entry.place());
  }
}

// One token before a text, and one behind it, at most.
void put_surrounding(ListedTokenizer& listed, const SurroundingTokens& surrounding) {
  listed.says_surrounding = true;
  if (!surrounding.before.empty()) listed.before = surrounding.before[0];
  if (!surrounding.behind.empty()) listed.behind = surrounding.behind[0];
}

SurroundingTokens read_surrounding(const JsonReader& json) {
  if (json.find("post_processor") == nullptr) return {};
  const SurroundingTokens surrounding = read_post_processor(json.object("post_processor"));
  if (surrounding.before.size() > 1 || surrounding.behind.size() > 1) {
    json.refuse("post_processor puts several tokens before or behind a text" + std::string(kNotInLists));
  }
  return surrounding;
}

std::vector<JsonReader> steps_of(const JsonReader& json, const char* field, const char* list) {
  if (json.find(field) == nullptr) return {};
  const JsonReader whole = json.object(field);
  return whole.type() == "Sequence" ? whole.objects(list) : std::vector<JsonReader>{whole};
}

void read_byte_level(ListedTokenizer& listed, const JsonReader& json, const JsonReader& model) {
  for (const JsonReader& step : steps_of(json, "normalizer", "normalizers")) {
    if (step.type() != "NFC") step.refuse("changes texts" + std::string(kNotInLists));
    listed.remarks.push_back("brings texts to the normal form NFC, which llama.cpp does not: give it such texts");
  }
  list_pre_tokenizer(json, model.boolean_or("ignore_merges", false), listed);
}

bool replaces_spaces(const JsonReader& step) {
  return step.type() == "Replace" && step.object("pattern").string_or("String", "") == " " &&
         step.string("content") == kSpace;
}

// What SentencePiece does with spaces, in either of the ways in which tokenizer.json says it.
void read_spaces(ListedTokenizer& listed, const JsonReader& json) {
  listed.space_first = false;
  bool replaces = false;
  for (const JsonReader& step : steps_of(json, "normalizer", "normalizers")) {
    if (step.type() == "Prepend" && step.string("prepend") == kSpace) {
      listed.space_first = true;
    } else if (replaces_spaces(step)) {
      replaces = true;
    } else {
      step.refuse("changes texts" + std::string(kNotInLists));
    }
  }
  for (const JsonReader& step : steps_of(json, "pre_tokenizer", "pretokenizers")) {
    if (step.type() == "Split" && replaces && step.object("pattern").string_or("String", "") == " ") continue;
    if (step.type() != "Metaspace" || step.string_or("replacement", "") != kSpace || step.boolean_or("split", true)) {
      step.refuse("cuts texts" + std::string(kNotInLists));
    }
    replaces = true;
    listed.space_first |= step.string_or("prepend_scheme", "always") != "never";
  }
  if (!replaces) json.refuse("keeps spaces" + std::string(kNotInLists));
}

void check_bytes(const Vocabulary& vocabulary, const JsonReader& model) {
  for (int byte = 0; byte < 256; ++byte) {
    if (!vocabulary.find_byte(static_cast<unsigned char>(byte))) {
      model.refuse("has no token for byte " + std::to_string(byte) + kNotInLists);
    }
  }
}

}  // namespace

ListedTokenizer list_tokenizer_json(const std::filesystem::path& file) {
  const nlohmann::json parsed = parse_json(read_tokenizer_file(file));
  const JsonReader json(parsed, file.string() + ": tokenizer");
  const JsonReader model = json.object("model");
  if (model.find("merges") == nullptr) model.refuse("is no BPE" + std::string(kNotInLists));
  for (const char* const key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.string_or(key, "").empty()) model.refuse(std::string(key) + " is set" + kNotInLists);
  }
  const Vocabulary vocabulary(model);
  const std::vector<std::string> merges = read_merges(model);
  ListedTokenizer listed;
  listed.bytes = !model.boolean_or("byte_fallback", false);
  if (listed.bytes) {
    read_byte_level(listed, json, model);
    listed.merges = merges;
  } else {
    read_spaces(listed, json);
    check_bytes(vocabulary, model);
  }
  put_vocabulary(listed, vocabulary);
  if (const std::string unknown = model.string_or("unk_token", ""); !listed.bytes && !unknown.empty()) {
    listed.unknown = vocabulary.find(unknown);
  }
  put_added(listed, json, vocabulary);
  if (!listed.bytes) score_by_merges(merges, model.place(), listed);
  if (listed.unknown) listed.tokens[static_cast<std::size_t>(*listed.unknown)].type = ListedType::unknown;
  put_surrounding(listed, read_surrounding(json));
  return listed;
}

ListedTokenizer list_vocabulary_and_merges(const std::filesystem::path& vocabulary_file,
                                           const std::filesystem::path& merges_file) {
  const nlohmann::json json = {{"vocab", parse_json(read_tokenizer_file(vocabulary_file))}};
  const Vocabulary vocabulary(JsonReader(json, vocabulary_file.string() + ": tokenizer"));
  ListedTokenizer listed;
  listed.bytes = true;
  listed.pre = "gpt-2";
  put_vocabulary(listed, vocabulary);
  const TokenizerConfig config(vocabulary_file.parent_path());
  if (config.json().boolean_or("add_prefix_space", false)) {
    config.json().refuse(std::string("add_prefix_space is true") + kNotInLists);
  }
  const std::vector<AddedToken> added = tokens_beside(vocabulary, config);
  for (const AddedToken& token : added) put_added(listed, token, config.place_of_added());
  const SurroundingTokens surrounding = surrounding_of(vocabulary, added, config);
  if (!surrounding.before.empty() || !surrounding.behind.empty()) put_surrounding(listed, surrounding);
  const std::string text = read_tokenizer_file(merges_file);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !(begin == 0 && line.starts_with("#version"))) listed.merges.push_back(std::move(line));
    begin = end + 1;
  }
  return listed;
}

}  // namespace l2l::text

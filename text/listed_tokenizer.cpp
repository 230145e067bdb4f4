#include "text/listed_tokenizer.h"

#include <set>

#include "l2l/errors.h"
#include "text/byte_characters.h"
#include "text/tokenizer.h"
#include "text/tokenizer_files.h"
#include "text/utf8.h"

namespace l2l::text {
namespace {

constexpr std::size_t kBytes = 256;

ListedTokenizer list_file(const std::filesystem::path& file) {
  const std::string extension = file.extension().string();
  if (extension == ".json") return list_tokenizer_json(file);
  if (extension == ".model") return list_sentencepiece(file);
  throw BadInput(file.string() +
                 ": gguf files take byte-level BPE and SentencePiece's BPE only; give the model a tokenizer.json or a "
                 "tokenizer.model");
}

// Readers of the file look tokens up by their texts.
void check_texts(const ListedTokenizer& listed, const std::filesystem::path& path) {
  std::set<std::string_view> texts;
  for (std::size_t id = 0; id < listed.tokens.size(); ++id) {
    const ListedToken& token = listed.tokens[id];
    if (token.type == ListedType::unused && token.text.empty()) continue;
    if (token.text.empty()) throw BadInput(path.string() + ": token " + std::to_string(id) + " is empty");
    if (texts.insert(token.text).second) continue;
    throw BadInput(path.string() + ": token " + std::to_string(id) + " has the text of another one, \"" + token.text +
                   "\"; gguf files tell tokens apart by their texts");
  }
}

}  // namespace

ListedTokenizer list_bytes() {
  ListedTokenizer listed;
  listed.bytes = true;
  listed.pre = "gpt-2";
  for (std::size_t byte = 0; byte < kBytes; ++byte) {
    std::string text;
    append_code_point(text, byte_characters()[byte]);
    listed.tokens.push_back({std::move(text), 0, ListedType::normal});
  }
  listed.says_surrounding = true;
  return listed;
}

ListedTokenizer list_tokenizer(const std::filesystem::path& path) {
  open_tokenizer(path);  // checks all that the file says
  const std::vector<std::filesystem::path> files = tokenizer_files(path);
  ListedTokenizer listed = has_merges(files) ? list_vocabulary_and_merges(files[0], files[1]) : list_file(files[0]);
  check_texts(listed, files[0]);
  return listed;
}

void put(ListedTokenizer& listed, TokenId id, std::string text, ListedType type) {
  const auto place = static_cast<std::size_t>(id);
  if (place >= listed.tokens.size()) listed.tokens.resize(place + 1);
  listed.tokens[place] = {std::move(text), 0, type};
}

void put_added(ListedTokenizer& listed, const AddedToken& token, const std::string& place) {
  const std::pair<const char*, bool> flags[] = {
      {"single_word", token.single_word}, {"lstrip", token.lstrip}, {"rstrip", token.rstrip}};
  for (const auto& [name, is_set] : flags) {
    if (!token.special && is_set) throw BadInput(place + ": " + name + " is true" + kNotInLists);
  }
  put(listed, token.id, token.content, token.special ? ListedType::control : ListedType::user_defined);
}

}  // namespace l2l::text

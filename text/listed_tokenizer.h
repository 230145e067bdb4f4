// A tokenizer as lists of tokens, scores and merges, which is how GGUF files have it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/json_reader.h"
#include "text/vocabulary.h"

namespace l2l::text {

// Ends messages.
inline constexpr const char* kNotInLists = ", which gguf files cannot say; export a Hugging Face directory";

// By their numbers in SentencePiece models and GGUF files.
enum class ListedType : std::int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct ListedToken {
  std::string text;  // not UTF-8 for no token
  float score = 0;   // of SentencePiece's: pairs merge to the token of the highest score first
  ListedType type = ListedType::unused;
};

struct ListedTokenizer {
  bool bytes = false;                // byte-level BPE, by `merges`; else SentencePiece's BPE, by the scores of tokens
  std::string pre;                   // byte-level: llama.cpp's name for how a text is cut first
  bool space_first = true;           // SentencePiece's: a space is put before a text
  std::vector<std::string> remarks;  // what llama.cpp does otherwise than this tokenizer
  std::vector<ListedToken> tokens;   // by id; there may be holes, which are unused and have no text
  std::vector<std::string> merges;   // "LEFT RIGHT"
  std::optional<TokenId> unknown;
  // The token that the file puts before, or behind, every text; nothing: it says nothing of it.
  std::optional<TokenId> before, behind;
  bool says_surrounding = false;  // whether it says what is put around a text; if so, nothing means no token
};

// `path`: as in open_tokenizer(). Throws BadInput as that does, and naming what lists cannot express: a kind of
// tokenizer other than BPE, or one that llama.cpp would apply in another way.
ListedTokenizer list_tokenizer(const std::filesystem::path& path);
// Byte-level without merges: token b is byte b.
ListedTokenizer list_bytes();

// The parts of list_tokenizer().
void put(ListedTokenizer& listed, TokenId id, std::string text, ListedType type);
// As a control token, found in texts only where asked for, if it is special, else as one that is always found. Throws
// BadInput, beginning with `place`, where the token has flags that lists cannot express.
void put_added(ListedTokenizer& listed, const AddedToken& token, const std::string& place);
// Sets llama.cpp's name for the pre-tokenizer of a byte-level tokenizer.json. `ignore_merges`: as its model says.
void list_pre_tokenizer(const JsonReader& tokenizer, bool ignore_merges, ListedTokenizer& listed);
ListedTokenizer list_tokenizer_json(const std::filesystem::path& file);
ListedTokenizer list_vocabulary_and_merges(const std::filesystem::path& vocabulary,
                                           const std::filesystem::path& merges);
ListedTokenizer list_sentencepiece(const std::filesystem::path& file);
// Gives tokens the scores with which merging by score does what merging by rank does. Throws BadInput, beginning with
// `place`, where no scores do.
void score_by_merges(const std::vector<std::string>& merges, const std::string& place, ListedTokenizer& listed);

}  // namespace l2l::text

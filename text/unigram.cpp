#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "text/byte_characters.h"
#include "text/flat_table.h"
#include "text/token_model.h"
#include "text/utf8.h"

namespace l2l::text {
namespace {

constexpr double kUnknownPenalty = 10;  // by which an unknown character is less probable than any token
constexpr std::int64_t kMostPieces = 1 << 22;

// What Hugging Face's tokenizers makes of the number: its JSON reader (serde_json) takes the digits as an integer and
// divides by a power of ten, which may be off in the last bit. That bit decides between ways of equal probability.
double as_the_library_reads(double value) {
  char text[40];
  const char* const end = std::to_chars(text, text + sizeof text, std::abs(value), std::chars_format::scientific).ptr;
  std::uint64_t digits = 0;
  int exponent = 0;
  bool fraction = false;
  const char* at = text;
  for (; at != end && *at != 'e'; ++at) {
    if (*at == '.') {
      fraction = true;
      continue;
    }
    digits = 10 * digits + static_cast<std::uint64_t>(*at - '0');
    exponent -= fraction ? 1 : 0;
  }
  int power = 0;
  if (at != end) std::from_chars(at + (at[1] == '+' ? 2 : 1), end, power);
  exponent += power;
  constexpr int kExactPowers = 22;  // of ten, in a double; scores are never so small
  if (std::abs(exponent) > kExactPowers) return value;
  const double scale = std::pow(10.0, std::abs(exponent)), whole = static_cast<double>(digits);
  return std::copysign(exponent < 0 ? whole / scale : whole * scale, value);
}

struct ScoredVocabulary {
  Vocabulary vocabulary;
  std::vector<std::string> tokens;
  std::vector<double> scores;  // logarithms of probabilities, by id
};

// The field "vocab": [[TOKEN, SCORE], ...]; ids count from 0. The later one of two equal tokens counts.
ScoredVocabulary read(const JsonReader& json) {
  const nlohmann::json& list = json.at("vocab");
  if (!list.is_array() || list.empty()) json.refuse("vocab: expected a list of tokens and their scores");
  if (static_cast<std::int64_t>(list.size()) > kMostPieces) json.refuse("vocab: has too many tokens");
  ScoredVocabulary read;
  for (const nlohmann::json& entry : list) {
    const bool good = entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number() &&
                      std::isfinite(entry[1].get<double>());
    if (!good) json.refuse("vocab[" + std::to_string(read.scores.size()) + "]: expected [TOKEN, SCORE]");
    read.tokens.push_back(entry[0].get<std::string>());
    read.vocabulary.add(read.tokens.back(), static_cast<TokenId>(read.scores.size()));
    read.scores.push_back(as_the_library_reads(entry[1].get<double>()));
  }
  return read;
}

// Finds all tokens that a text begins with.
class Trie {
 public:
  explicit Trie(const std::vector<std::string>& tokens) : children_(bytes_of(tokens)) {
    for (const std::string& token : tokens) insert(token);
  }

  void set(std::string_view token, TokenId id) { ends_[walk(token)] = id; }

  // Calls found(bytes, id) from the shortest token to the longest.
  template <typename Found>
  void for_each_prefix(std::string_view text, const Found& found) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const std::uint32_t* const child = children_.find(key(node, text[i]));
      if (child == nullptr) return;
      node = *child;
      if (ends_[node] >= 0) found(i + 1, ends_[node]);
    }
  }

 private:
  static std::size_t bytes_of(const std::vector<std::string>& tokens) {
    std::size_t bytes = 0;
    for (const std::string& token : tokens) bytes += token.size();
    return bytes;
  }
  static std::uint64_t key(std::uint32_t node, char c) {
    return static_cast<std::uint64_t>(node) << 8 | static_cast<unsigned char>(c);
  }
  void insert(std::string_view token) {
    std::uint32_t node = 0;
    for (const char c : token) {
      const std::uint32_t* const child = children_.find(key(node, c));
      if (child != nullptr) {
        node = *child;
        continue;
      }
      const auto next = static_cast<std::uint32_t>(ends_.size());
      children_.insert(key(node, c), next);
      ends_.push_back(-1);
      node = next;
    }
  }
  std::uint32_t walk(std::string_view token) const {
    std::uint32_t node = 0;
    for (const char c : token) node = *children_.find(key(node, c));
    return node;
  }

  FlatTable<std::uint32_t> children_;
  std::vector<TokenId> ends_{-1};  // by node: the token that ends there, or -1
};

class Unigram final : public TokenModel {
 public:
  Unigram(ScoredVocabulary scored, std::optional<TokenId> unknown, bool byte_fallback)
      : TokenModel(std::move(scored.vocabulary)),
        trie_(scored.tokens),
        scores_(std::move(scored.scores)),
        unknown_(unknown),
        byte_fallback_(byte_fallback),
        unknown_score_(*std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty) {
    for (const std::string& token : scored.tokens) {
      if (!token.empty()) trie_.set(token, *vocabulary().find(token));
    }
  }

  void tokenize(const Piece& piece, std::vector<TokenId>& ids) const override {
    const std::string text = piece.bytes ? to_byte_characters(piece.text) : std::string(piece.text);
    thread_local std::vector<Node> best;  // by the place where a token ends
    find_best(text, best);
    thread_local std::vector<std::string_view> tokens;
    trace_back(text, best, tokens);
    for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) append(piece, *token, ids);
  }

 private:
  struct Node {
    double score = 0;  // of the best way here
    std::int64_t begin = -1;
    TokenId id = -1;
  };

  // Viterbi's algorithm.
  void find_best(std::string_view text, std::vector<Node>& best) const {
    best.assign(text.size() + 1, Node());
    const auto offer = [&](std::size_t begin, std::size_t end, double score, TokenId id) {
      Node& node = best[end];
      const double whole = score + best[begin].score;
      if (node.begin < 0 || whole > node.score) node = {whole, static_cast<std::int64_t>(begin), id};
    };
    for (std::size_t begin = 0; begin < text.size();) {
      const std::string_view rest = text.substr(begin);
      const std::size_t character = first_code_point(rest).bytes;
      bool has_character = false;
      trie_.for_each_prefix(rest, [&](std::size_t bytes, TokenId id) {
        offer(begin, begin + bytes, scores_[static_cast<std::size_t>(id)], id);
        has_character |= bytes == character;
      });
      if (!has_character) offer(begin, begin + character, unknown_score_, unknown_.value_or(-1));
      begin += character;
    }
  }

  // Tokens from the last to the first; unknown characters in a row are one.
  void trace_back(std::string_view text, const std::vector<Node>& best, std::vector<std::string_view>& tokens) const {
    tokens.clear();
    bool fuses = false;
    for (std::size_t end = text.size(); end > 0;) {
      const Node& node = best[end];
      const auto begin = static_cast<std::size_t>(node.begin);
      const bool unknown = unknown_ && node.id == *unknown_;
      if (unknown && fuses) {
        tokens.back() = text.substr(begin, end - begin + tokens.back().size());
      } else {
        tokens.push_back(text.substr(begin, end - begin));
      }
      fuses = unknown;
      end = begin;
    }
  }

  void append(const Piece& piece, std::string_view token, std::vector<TokenId>& ids) const {
    if (const std::optional<TokenId> id = vocabulary().find(token)) return ids.push_back(*id);
    const std::size_t before = ids.size();
    for (const char c : byte_fallback_ ? token : std::string_view()) {
      const std::optional<TokenId> id = vocabulary().find_byte(static_cast<unsigned char>(c));
      if (!id) {
        ids.resize(before);
        break;
      }
      ids.push_back(*id);
    }
    if (ids.size() > before) return;
    if (!unknown_) refuse_unknown(piece);
    ids.push_back(*unknown_);
  }

  Trie trie_;
  const std::vector<double> scores_;
  const std::optional<TokenId> unknown_;
  const bool byte_fallback_;
  const double unknown_score_;
};

}  // namespace

std::unique_ptr<TokenModel> make_unigram(const JsonReader& json) {
  ScoredVocabulary scored = read(json);
  std::optional<TokenId> unknown;
  if (json.find("unk_id") != nullptr) {
    unknown = static_cast<TokenId>(json.integer("unk_id", static_cast<std::int64_t>(scored.scores.size()) - 1));
  }
  return std::make_unique<Unigram>(std::move(scored), unknown, json.boolean_or("byte_fallback", false));
}

}  // namespace l2l::text

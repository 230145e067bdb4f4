#include <algorithm>
#include <array>
#include <queue>

#include "l2l/errors.h"
#include "text/byte_characters.h"
#include "text/flat_table.h"
#include "text/token_model.h"
#include "text/utf8.h"

namespace l2l::text {
namespace {

std::uint64_t pair_of(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

class Bpe final : public TokenModel {
 public:
  Bpe(Vocabulary vocabulary, BpeSettings settings)
      : TokenModel(std::move(vocabulary)), settings_(std::move(settings)), merges_(settings_.merges.size()) {
    std::uint32_t rank = 0;
    for (const Merge& merge : settings_.merges) {
      merges_.insert(pair_of(merge.left, merge.right), {rank++, merge.merged});
    }
    settings_.merges = {};
    for (std::size_t byte = 0; byte < bytes_.size(); ++byte) {
      std::string character;
      append_code_point(character, byte_characters()[byte]);
      bytes_[byte] = this->vocabulary().find(character).value_or(-1);
    }
  }

  void tokenize(const Piece& piece, std::vector<TokenId>& ids) const override {
    const bool decorated = !settings_.continuing_prefix.empty() || !settings_.end_suffix.empty();
    thread_local std::vector<TokenId> symbols;
    symbols.clear();
    if (settings_.ignore_merges) {
      const std::optional<TokenId> whole =
          vocabulary().find(piece.bytes ? to_byte_characters(piece.text) : std::string(piece.text));
      if (whole) return ids.push_back(*whole);
    }
    if (!piece.bytes || decorated || !symbols_of_bytes(piece.text, symbols)) {
      symbols.clear();
      symbols_of(piece.bytes ? to_byte_characters(piece.text) : std::string(piece.text), symbols);
    }
    merge(symbols);
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }

 private:
  struct Merged {
    std::uint32_t rank = 0;
    TokenId id = 0;
  };
  // A pair of neighbours that can be merged.
  struct Candidate {
    std::uint32_t rank = 0, place = 0;
    TokenId id = 0;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : place > other.place;
    }
  };
  struct Neighbours {
    std::int32_t previous = -1, next = -1;
  };

  // False where a byte has no token.
  bool symbols_of_bytes(std::string_view text, std::vector<TokenId>& symbols) const {
    for (const char c : text) {
      const TokenId id = bytes_[static_cast<unsigned char>(c)];
      if (id < 0) return false;
      symbols.push_back(id);
    }
    return true;
  }

  // The token of every character. Unknown ones that are to be fused wait until a known one comes.
  void symbols_of(const std::string& text, std::vector<TokenId>& symbols) const {
    bool pending = false;
    std::string name;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t bytes = first_code_point(std::string_view(text).substr(begin)).bytes;
      name = begin > 0 ? settings_.continuing_prefix : std::string();
      name.append(text, begin, bytes);
      begin += bytes;
      if (begin == text.size()) name += settings_.end_suffix;
      if (const std::optional<TokenId> id = vocabulary().find(name)) {
        if (pending) symbols.push_back(*settings_.unknown);
        pending = false;
        symbols.push_back(*id);
      } else if (!settings_.byte_fallback || !append_bytes(name, symbols)) {
        if (!settings_.unknown) continue;
        if (pending && !settings_.fuse_unknown) symbols.push_back(*settings_.unknown);
        pending = true;
      }
    }
    if (pending) symbols.push_back(*settings_.unknown);
  }

  // False, and nothing appended, where a byte has no token.
  bool append_bytes(const std::string& text, std::vector<TokenId>& symbols) const {
    const std::size_t before = symbols.size();
    for (const char c : text) {
      const std::optional<TokenId> id = vocabulary().find_byte(static_cast<unsigned char>(c));
      if (!id) {
        symbols.resize(before);
        return false;
      }
      symbols.push_back(*id);
    }
    return true;
  }

  // The merge of the lowest rank, the leftmost of these, until there is none: n log n steps.
  void merge(std::vector<TokenId>& symbols) const {
    constexpr TokenId kGone = -1;
    if (symbols.size() < 2) return;
    thread_local std::vector<Neighbours> neighbours;
    thread_local std::vector<Candidate> heap;
    const auto count = static_cast<std::int32_t>(symbols.size());
    neighbours.resize(symbols.size());
    heap.clear();
    for (std::int32_t i = 0; i < count; ++i)
      neighbours[static_cast<std::size_t>(i)] = {i - 1, i + 1 < count ? i + 1 : -1};
    const auto candidate = [&](std::int32_t left, std::int32_t right) {
      if (left < 0 || right < 0) return false;
      const Merged* const found =
          merges_.find(pair_of(symbols[static_cast<std::size_t>(left)], symbols[static_cast<std::size_t>(right)]));
      if (found != nullptr) heap.push_back({found->rank, static_cast<std::uint32_t>(left), found->id});
      return found != nullptr;
    };
    const auto order = std::greater<Candidate>();
    const auto push = [&](std::int32_t left, std::int32_t right) {
      if (candidate(left, right)) std::push_heap(heap.begin(), heap.end(), order);
    };
    for (std::int32_t i = 0; i + 1 < count; ++i) candidate(i, i + 1);
    std::make_heap(heap.begin(), heap.end(), order);
    while (!heap.empty()) {
      const Candidate top = heap.front();
      std::pop_heap(heap.begin(), heap.end(), order);
      heap.pop_back();
      Neighbours& here = neighbours[top.place];
      if (symbols[top.place] == kGone || here.next < 0) continue;
      // Its tokens may have changed since; then another candidate stands for them.
      const auto right = static_cast<std::size_t>(here.next);
      const Merged* const now = merges_.find(pair_of(symbols[top.place], symbols[right]));
      if (now == nullptr || now->id != top.id) continue;
      symbols[top.place] = top.id;
      symbols[right] = kGone;
      here.next = neighbours[right].next;
      const auto place = static_cast<std::int32_t>(top.place);
      if (here.next >= 0) neighbours[static_cast<std::size_t>(here.next)].previous = place;
      push(here.previous, place);
      push(place, here.next);
    }
    std::erase(symbols, kGone);
  }

  BpeSettings settings_;
  FlatTable<Merged> merges_;
  std::array<TokenId, 256> bytes_{};  // of byte_characters(); -1: none
};

std::vector<Merge> read_merges(const JsonReader& json, const Vocabulary& vocabulary, const std::string& prefix) {
  const nlohmann::json& list = json.at("merges");
  if (!list.is_array()) json.refuse("merges: expected a list");
  std::vector<Merge> merges;
  merges.reserve(list.size());
  for (const nlohmann::json& element : list) {
    const std::string place = json.place() + ".merges[" + std::to_string(merges.size()) + "]";
    if (element.is_array() && element.size() == 2 && element[0].is_string() && element[1].is_string()) {
      merges.push_back(read_merge(vocabulary, element[0].get_ref<const std::string&>(),
                                  element[1].get_ref<const std::string&>(), prefix, place));
      continue;
    }
    const std::string line = element.is_string() ? element.get<std::string>() : std::string();
    const std::size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) {
      throw BadInput(place + ": expected two tokens with a space between them, or a list of two");
    }
    merges.push_back(read_merge(vocabulary, std::string_view(line).substr(0, space),
                                std::string_view(line).substr(space + 1), prefix, place));
  }
  return merges;
}

}  // namespace

Merge read_merge(const Vocabulary& vocabulary, std::string_view left, std::string_view right,
                 const std::string& continuing_prefix, const std::string& place) {
  const auto id_of = [&](const std::string& token) {
    const std::optional<TokenId> id = vocabulary.find(token);
    if (!id) throw BadInput(place + ": the token " + json_text(nlohmann::json(token)) + " is not in the vocabulary");
    return *id;
  };
  const bool prefixed = right.size() >= continuing_prefix.size();
  if (!prefixed) throw BadInput(place + ": the right token is shorter than continuing_subword_prefix");
  return {id_of(std::string(left)), id_of(std::string(right)),
          id_of(std::string(left) + std::string(right.substr(continuing_prefix.size())))};
}

std::unique_ptr<TokenModel> make_bpe(Vocabulary vocabulary, BpeSettings settings) {
  return std::make_unique<Bpe>(std::move(vocabulary), std::move(settings));
}

std::unique_ptr<TokenModel> make_bpe(const JsonReader& json) {
  if (json.find("dropout") != nullptr && json.number("dropout") > 0) json.refuse("dropout of merges is not supported");
  Vocabulary vocabulary(json);
  BpeSettings settings;
  settings.continuing_prefix = json.string_or("continuing_subword_prefix", "");
  settings.end_suffix = json.string_or("end_of_word_suffix", "");
  settings.fuse_unknown = json.boolean_or("fuse_unk", false);
  settings.byte_fallback = json.boolean_or("byte_fallback", false);
  settings.ignore_merges = json.boolean_or("ignore_merges", false);
  settings.merges = read_merges(json, vocabulary, settings.continuing_prefix);
  if (json.find("unk_token") != nullptr) {
    settings.unknown = vocabulary.find(json.string("unk_token"));
    if (!settings.unknown) json.refuse("unk_token: is not in the vocabulary");
  }
  return make_bpe(std::move(vocabulary), std::move(settings));
}

}  // namespace l2l::text

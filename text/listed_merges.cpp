#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "l2l/errors.h"
#include "text/listed_tokenizer.h"
#include "text/utf8.h"

namespace l2l::text {
namespace {

// Merging by score joins any two tokens whose texts make a third. Every such pair must therefore be a merge.
void check_pairs(const std::unordered_map<std::string_view, std::size_t>& ranks,
                 const std::unordered_set<std::string>& merges, const ListedTokenizer& listed,
                 const std::string& place) {
  std::unordered_set<std::string_view> texts;
  for (const ListedToken& token : listed.tokens) {
    if (token.type == ListedType::normal && !token.text.empty()) texts.insert(token.text);
  }
  for (const std::string_view text : texts) {
    for (std::size_t cut = first_code_point(text).bytes; cut < text.size();
         cut += first_code_point(text.substr(cut)).bytes) {
      const std::string_view left = text.substr(0, cut), right = text.substr(cut);
      if (texts.count(left) == 0 || texts.count(right) == 0) continue;
      const std::string merge = std::string(left) + ' ' + std::string(right);
      if (ranks.count(text) > 0 && merges.count(merge) > 0) continue;
      throw BadInput(place + ": \"" + merge + "\" is no merge, though it makes a token" + kNotInLists);
    }
  }
}

}  // namespace

void score_by_merges(const std::vector<std::string>& merges, const std::string& place, ListedTokenizer& listed) {
  // By what a merge makes: the rank of its first one.
  std::vector<std::string> made;
  for (const std::string& merge : merges) {
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string::npos) throw BadInput(place + ": merges a token without text" + kNotInLists);
    made.push_back(merge.substr(0, space) + merge.substr(space + 1));
  }
  std::unordered_map<std::string_view, std::size_t> ranks;
  for (std::size_t rank = 0; rank < made.size(); ++rank) {
    const bool first = ranks.emplace(made[rank], rank).second;
    if (first || made[rank] == made[rank - 1]) continue;
    throw BadInput(place + ": the merges that make \"" + made[rank] + "\" do not follow one another" + kNotInLists);
  }
  check_pairs(ranks, {merges.begin(), merges.end()}, listed, place);
  for (ListedToken& token : listed.tokens) {
    const auto rank = ranks.find(token.text);
    if (token.type == ListedType::normal && rank != ranks.end()) token.score = -static_cast<float>(rank->second);
  }
}

}  // namespace l2l::text

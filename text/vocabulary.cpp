#include "text/vocabulary.h"

#include "l2l/errors.h"

namespace l2l::text {

Vocabulary::Vocabulary(const JsonReader& model) {
  const nlohmann::json& vocabulary = model.at("vocab");
  if (!vocabulary.is_object()) model.refuse("vocab: expected an object of tokens and their ids");
  ids_.reserve(vocabulary.size());
  for (const auto& [token, id] : vocabulary.items()) {
    const bool fits = id.is_number_unsigned() && id.get<std::uint64_t>() < static_cast<std::uint64_t>(kMostTokens);
    if (!fits) {
      model.refuse("vocab[" + json_text(nlohmann::json(token)) + "]: expected an id from 0 to " +
                   std::to_string(kMostTokens - 1));
    }
    try {
      add(token, id.get<TokenId>());
    } catch (const BadInput& error) {
      model.refuse(std::string("vocab: ") + error.what());
    }
  }
}

void Vocabulary::add(std::string token, TokenId id) {
  if (id < 0 || id >= kMostTokens) throw BadInput("token id " + std::to_string(id) + " is out of range");
  const auto place = static_cast<std::size_t>(id);
  if (tokens_.size() <= place) tokens_.resize(place + 1);
  if (tokens_[place] != nullptr) {
    throw BadInput("id " + std::to_string(id) + " is that of two tokens, " +
                   json_text(nlohmann::json(*tokens_[place])) + " and " + json_text(nlohmann::json(token)));
  }
  const auto [entry, is_new] = ids_.insert_or_assign(std::move(token), id);
  tokens_[place] = &entry->first;
}

std::optional<TokenId> Vocabulary::find_byte(unsigned char byte) const {
  constexpr char kDigits[] = "0123456789ABCDEF";
  const char name[] = {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
  return find(std::string_view(name, sizeof name));
}

}  // namespace l2l::text

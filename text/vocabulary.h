// Tokens and their ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/json_reader.h"

namespace l2l::text {

using TokenId = std::int32_t;

inline constexpr std::int64_t kMostTokens = 1 << 24;  // ids are below

// Immutable once built.
class Vocabulary {
 public:
  Vocabulary() = default;
  // The field "vocab": {TOKEN: ID}. Throws BadInput; several tokens with one id, too.
  explicit Vocabulary(const JsonReader& model);

  // The later one of two tokens of the same name counts. Throws BadInput where the id is taken.
  void add(std::string token, TokenId id);

  std::optional<TokenId> find(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  // The id of "<0x0A>" for byte 10, and so on.
  std::optional<TokenId> find_byte(unsigned char byte) const;
  // Null where there is no such id.
  const std::string* token(TokenId id) const {
    const auto place = static_cast<std::size_t>(id);
    return id < 0 || place >= tokens_.size() ? nullptr : tokens_[place];
  }
  std::int64_t count() const { return static_cast<std::int64_t>(ids_.size()); }  // of tokens with names of their own
  // All ids are below.
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;  // by id; of ids_
};

}  // namespace l2l::text

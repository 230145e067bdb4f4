// The ids of frequent pieces of text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace l2l::text {

// Each piece has one place; the last one that needed it stays. Grows to 2 MiB as it is used. Not synchronised.
class WordCache {
 public:
  // Appends its ids, or returns false.
  bool find(std::string_view piece, std::vector<TokenId>& ids) const {
    if (piece.size() > kMostBytes) return false;
    const Entry& entry = entries_[place(piece)];
    if (std::string_view(entry.piece, entry.bytes) != piece) return false;
    ids.insert(ids.end(), entry.ids, entry.ids + entry.count);
    return true;
  }

  void keep(std::string_view piece, std::span<const TokenId> ids) {
    if (piece.size() > kMostBytes || ids.size() > kMostIds) return;
    if (++kept_ > entries_.size() && entries_.size() < kMostEntries) entries_.assign(2 * entries_.size(), {});
    Entry& entry = entries_[place(piece)];
    entry.bytes = static_cast<std::uint8_t>(piece.size());
    entry.count = static_cast<std::uint8_t>(ids.size());
    std::copy(piece.begin(), piece.end(), entry.piece);
    std::copy(ids.begin(), ids.end(), entry.ids);
  }

 private:
  static constexpr std::size_t kFirstEntries = 1 << 8, kMostEntries = 1 << 15;
  static constexpr std::size_t kMostBytes = 30, kMostIds = 8;
  struct Entry {
    std::uint8_t bytes = 0, count = 0;
    char piece[kMostBytes];
    TokenId ids[kMostIds];
  };
  static_assert(sizeof(Entry) == 64);

  std::size_t place(std::string_view piece) const {
    std::uint64_t hash = piece.size();
    for (; piece.size() >= sizeof hash; piece.remove_prefix(sizeof hash)) {
      std::uint64_t word = 0;
      std::memcpy(&word, piece.data(), sizeof word);
      hash = mix(hash ^ word);
    }
    std::uint64_t rest = 0;
    std::memcpy(&rest, piece.data(), piece.size());
    return static_cast<std::size_t>(mix(hash ^ rest)) & (entries_.size() - 1);
  }
  static std::uint64_t mix(std::uint64_t x) {
    x *= 0x9e3779b97f4a7c15u;
    return x ^ x >> 32;
  }

  std::vector<Entry> entries_ = std::vector<Entry>(kFirstEntries);  // a power of two; empties when it grows
  std::size_t kept_ = 0;
};

}  // namespace l2l::text

// The ids of frequent pieces of text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace l2l::text {

// Each piece has one place; the last one that needed it stays. 2 MiB. Not synchronised.
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
    Entry& entry = entries_[place(piece)];
    entry.bytes = static_cast<std::uint8_t>(piece.size());
    entry.count = static_cast<std::uint8_t>(ids.size());
    std::copy(piece.begin(), piece.end(), entry.piece);
    std::copy(ids.begin(), ids.end(), entry.ids);
  }

 private:
  static constexpr std::size_t kEntries = 1 << 15, kMostBytes = 30, kMostIds = 8;
  struct Entry {
    std::uint8_t bytes, count;
    char piece[kMostBytes];
    TokenId ids[kMostIds];
  };
  static_assert(sizeof(Entry) == 64);
  struct Free {
    void operator()(Entry* entries) const { std::free(entries); }
  };
  using Entries = std::unique_ptr<Entry[], Free>;

  // Zeros, of which the system gives no more than are touched: most encoders of small texts need few.
  static Entries make_entries() {
    Entries entries(static_cast<Entry*>(std::calloc(kEntries, sizeof(Entry))));
    if (entries == nullptr) throw std::bad_alloc();
    return entries;
  }

  static std::size_t place(std::string_view piece) {
    std::uint64_t hash = piece.size();
    for (; piece.size() >= sizeof hash; piece.remove_prefix(sizeof hash)) {
      std::uint64_t word = 0;
      std::memcpy(&word, piece.data(), sizeof word);
      hash = mix(hash ^ word);
    }
    std::uint64_t rest = 0;
    std::memcpy(&rest, piece.data(), piece.size());
    return static_cast<std::size_t>(mix(hash ^ rest) % kEntries);
  }
  static std::uint64_t mix(std::uint64_t x) {
    x *= 0x9e3779b97f4a7c15u;
    return x ^ x >> 32;
  }

  Entries entries_ = make_entries();
};

}  // namespace l2l::text

// A hash table of 64-bit keys in one array: open addressing, linear probing.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace l2l::text {

// Keys are not ~0. Not synchronised.
template <typename Value>
class FlatTable {
 public:
  explicit FlatTable(std::size_t count = 0) : places_(std::bit_ceil(2 * count + 2)) {}

  const Value* find(std::uint64_t key) const {
    for (std::size_t i = first(key);; i = (i + 1) & (places_.size() - 1)) {
      if (places_[i].key == key) return &places_[i].value;
      if (places_[i].key == kFree) return nullptr;
    }
  }
  // At most `count` keys. The later one of two values counts.
  void insert(std::uint64_t key, const Value& value) {
    std::size_t i = first(key);
    while (places_[i].key != kFree && places_[i].key != key) i = (i + 1) & (places_.size() - 1);
    places_[i] = {key, value};
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Place {
    std::uint64_t key = kFree;
    Value value{};
  };
  std::size_t first(std::uint64_t key) const {
    key *= 0x9e3779b97f4a7c15u;  // Fibonacci hashing: the upper bits are the mixed ones
    return static_cast<std::size_t>(key >> 32) & (places_.size() - 1);
  }
  std::vector<Place> places_;
};

}  // namespace l2l::text

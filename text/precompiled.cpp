// SentencePiece's compiled character map: a double-array trie of Darts (github.com/s-yata/darts-clone) from strings to
// offsets into a list of replacements, each ended by a zero byte.
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "text/base64.h"
#include "text/normal_forms.h"
#include "text/normalizer.h"
#include "text/utf8.h"

namespace l2l::text {
namespace {

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(const JsonReader& json) {
    const std::optional<std::string> blob = decode_base64(json.string("precompiled_charsmap"));
    if (!blob) json.refuse("precompiled_charsmap is not base64");
    std::uint32_t bytes = 0;
    if (blob->size() >= sizeof bytes) std::memcpy(&bytes, blob->data(), sizeof bytes);
    const bool fits = bytes >= sizeof(std::uint32_t) && bytes % sizeof(std::uint32_t) == 0 &&
                      bytes <= blob->size() - sizeof bytes && blob->back() == '\0';
    if (!fits) json.refuse("precompiled_charsmap is not a trie and a list of strings");
    units_.resize(bytes / sizeof(std::uint32_t));
    std::memcpy(units_.data(), blob->data() + sizeof bytes, bytes);
    replacements_ = blob->substr(sizeof bytes + bytes);
    if (valid_prefix(replacements_) != replacements_.size()) json.refuse("precompiled_charsmap is not in UTF-8");
  }

  // Short grapheme clusters as a whole where the map has them, else character by character.
  std::string apply(std::string text) const override {
    constexpr std::size_t kMostBytes = 5;
    std::string result;
    for_each_grapheme(text, [&](std::string_view cluster) {
      const std::optional<std::string_view> whole =
          cluster.size() <= kMostBytes ? replacement(cluster) : std::optional<std::string_view>();
      whole ? static_cast<void>(result += *whole) : append_characters(cluster, result);
    });
    return result;
  }

 private:
  void append_characters(std::string_view cluster, std::string& result) const {
    while (!cluster.empty()) {
      const std::string_view c = cluster.substr(0, first_code_point(cluster).bytes);
      result += replacement(c).value_or(c);
      cluster.remove_prefix(c.size());
    }
  }

  // What stands for the shortest beginning of `text` that the map has.
  std::optional<std::string_view> replacement(std::string_view text) const {
    std::size_t node = offset(units_[0]);
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      node ^= byte;
      if (byte == 0 || node >= units_.size() || (units_[node] & 0x800000ffu) != byte) return std::nullopt;
      const bool ends = (units_[node] >> 8 & 1) != 0;
      node ^= offset(units_[node]);
      if (node >= units_.size()) return std::nullopt;
      if (!ends) continue;
      const std::size_t place = units_[node] & 0x7fffffffu;
      if (place >= replacements_.size()) return std::nullopt;
      return std::string_view(replacements_.c_str() + place);
    }
    return std::nullopt;
  }

  static std::size_t offset(std::uint32_t unit) { return (unit >> 10) << ((unit & 0x200u) >> 6); }

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace

std::unique_ptr<Normalizer> make_precompiled_normalizer(const JsonReader& json) {
  return std::make_unique<Precompiled>(json);
}

}  // namespace l2l::text

#include "text/byte_characters.h"

#include "text/utf8.h"

namespace l2l::text {
namespace {

constexpr char32_t kFirstStandIn = 256, kLastStandIn = 256 + 67;

constexpr bool is_printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

constexpr std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = kFirstStandIn;
  for (int byte = 0; byte < 256; ++byte) {
    characters[static_cast<std::size_t>(byte)] = is_printable(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return characters;
}

constexpr std::array<char32_t, 256> kCharacters = make_characters();

// By character; -1: stands for no byte.
constexpr std::array<int, kLastStandIn + 1> make_bytes() {
  std::array<int, kLastStandIn + 1> bytes{};
  for (int& byte : bytes) byte = -1;
  for (int byte = 0; byte < 256; ++byte) bytes[kCharacters[static_cast<std::size_t>(byte)]] = byte;
  return bytes;
}

constexpr std::array<int, kLastStandIn + 1> kBytes = make_bytes();

}  // namespace

const std::array<char32_t, 256>& byte_characters() { return kCharacters; }

std::string to_byte_characters(std::string_view bytes) {
  std::string result;
  for (const char byte : bytes) append_code_point(result, kCharacters[static_cast<unsigned char>(byte)]);
  return result;
}

std::optional<std::string> from_byte_characters(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    if (c.value > kLastStandIn || kBytes[c.value] < 0) return std::nullopt;
    result += static_cast<char>(kBytes[c.value]);
    text.remove_prefix(c.bytes);
  }
  return result;
}

}  // namespace l2l::text

#include "text/tokenizer.h"

namespace l2l::text {
namespace {

class ByteEncoder final : public Encoder {
 public:
  void encode(std::string_view text, bool, std::vector<std::int32_t>& ids) override {
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  }
};

// Each byte is a token.
class ByteTokenizer final : public Tokenizer {
 public:
  std::int64_t vocabulary() const override { return 256; }
  std::unique_ptr<Encoder> make_encoder() const override { return std::make_unique<ByteEncoder>(); }
  // A model may have more tokens than there are bytes.
  std::string decode(std::span<const std::int32_t> ids, bool) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      id >= 0 && id < 256 ? text.push_back(static_cast<char>(id)) : void(text += "\uFFFD");
    }
    return text;
  }
};

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer_or_bytes(const std::filesystem::path& path) {
  if (path == "bytes") return std::make_unique<ByteTokenizer>();
  return open_tokenizer(path);
}

}  // namespace l2l::text

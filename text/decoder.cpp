#include "text/decoder.h"

#include <functional>
#include <optional>

#include "text/byte_characters.h"
#include "text/pattern.h"
#include "text/utf8.h"

namespace l2l::text {
namespace {

using Parts = std::vector<std::string>;

class DecoderFunction final : public Decoder {
 public:
  explicit DecoderFunction(std::function<Parts(Parts)> function) : function_(std::move(function)) {}
  Parts decode(Parts parts) const override { return function_(std::move(parts)); }

 private:
  const std::function<Parts(Parts)> function_;
};

class DecoderSequence final : public Decoder {
 public:
  explicit DecoderSequence(const JsonReader& json) {
    for (const JsonReader& part : json.objects("decoders")) decoders_.push_back(make_decoder(part));
  }
  Parts decode(Parts parts) const override {
    for (const auto& decoder : decoders_) parts = decoder->decode(std::move(parts));
    return parts;
  }

 private:
  std::vector<std::unique_ptr<Decoder>> decoders_;
};

std::string joined(const Parts& parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

Parts decode_bytes(const Parts& parts) {
  std::string bytes;
  for (const std::string& part : parts) bytes += from_byte_characters(part).value_or(part);
  return {replace_invalid(bytes)};
}

// The byte of "<0x0A>".
std::optional<char> byte_of(const std::string& part) {
  if (part.size() != 6 || !part.starts_with("<0x") || part[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : {part[3], part[4]}) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = 16 * value + digit;
  }
  return static_cast<char>(value);
}

// Bytes in a row become text, or U+FFFD each where they are not UTF-8.
Parts decode_byte_fallback(const Parts& parts) {
  Parts result;
  std::string bytes;
  const auto flush = [&] {
    if (valid_prefix(bytes) == bytes.size()) {
      if (!bytes.empty()) result.push_back(bytes);
    } else {
      for (std::size_t i = 0; i < bytes.size(); ++i) result.emplace_back("\xef\xbf\xbd");
    }
    bytes.clear();
  };
  for (const std::string& part : parts) {
    const std::optional<char> byte = byte_of(part);
    if (byte) {
      bytes += *byte;
      continue;
    }
    flush();
    result.push_back(part);
  }
  flush();
  return result;
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  if (what.empty()) return;
  for (std::size_t place = text.find(what); place != std::string::npos; place = text.find(what, place + by.size())) {
    text.replace(place, what.size(), by);
  }
}

// Takes back the spaces that stand before English punctuation and contractions.
void clean_up(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> kReplacements[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [what, by] : kReplacements) replace_all(text, what, by);
}

Parts decode_word_piece(Parts parts, const std::string& prefix, bool cleanup) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::string& part = parts[i];
    if (i > 0) part.starts_with(prefix) ? part.erase(0, prefix.size()) : part.insert(0, " ");
    if (cleanup) clean_up(part);
  }
  return parts;
}

Parts decode_metaspace(Parts parts, const std::string& replacement, bool keeps_first) {
  for (std::size_t i = 0; i < parts.size(); ++i) replace_all(parts[i], replacement, i == 0 && !keeps_first ? "" : " ");
  return parts;
}

Parts decode_bpe(Parts parts, const std::string& suffix) {
  for (std::size_t i = 0; i < parts.size(); ++i) replace_all(parts[i], suffix, i + 1 < parts.size() ? " " : "");
  return parts;
}

// At most so many of `content` at either end.
std::string strip(std::string_view part, std::string_view content, std::int64_t start, std::int64_t stop) {
  for (; start > 0 && part.starts_with(content); --start) part.remove_prefix(content.size());
  for (; stop > 0 && part.ends_with(content); --stop) part.remove_suffix(content.size());
  return std::string(part);
}

template <typename Change>
Parts each(Parts parts, const Change& change) {
  for (std::string& part : parts) part = change(part);
  return parts;
}

std::function<Parts(Parts)> decoder_function(const JsonReader& json) {
  constexpr std::int64_t kMost = 1'000'000;
  const std::string type = json.type();
  if (type == "ByteLevel") return decode_bytes;
  if (type == "ByteFallback") return decode_byte_fallback;
  if (type == "Fuse") return [](Parts parts) { return Parts{joined(parts)}; };
  if (type == "WordPiece") {
    return [prefix = json.string("prefix"), cleanup = json.boolean("cleanup")](Parts parts) {
      return decode_word_piece(std::move(parts), prefix, cleanup);
    };
  }
  if (type == "BPEDecoder") {
    return [suffix = json.string("suffix")](Parts parts) { return decode_bpe(std::move(parts), suffix); };
  }
  if (type == "Metaspace") {
    const bool prepends = json.boolean_or("add_prefix_space", true);
    const bool never = !prepends || json.string_or("prepend_scheme", "always") == "never";
    return [replacement = json.string("replacement"), never](Parts parts) {
      return decode_metaspace(std::move(parts), replacement, never);
    };
  }
  if (type == "Strip") {
    const std::string content = json.string("content");
    if (content.empty()) json.refuse("content: is empty");
    return [content, start = json.integer("start", kMost), stop = json.integer("stop", kMost)](Parts parts) {
      return each(std::move(parts), [&](const std::string& part) { return strip(part, content, start, stop); });
    };
  }
  if (type == "Replace") {
    return [pattern = std::make_shared<const Pattern>(json), by = json.string("content")](Parts parts) {
      return each(std::move(parts), [&](const std::string& part) { return pattern->replace(part, by); });
    };
  }
  json.refuse("the decoder \"" + type + "\" is not supported");
}

}  // namespace

std::unique_ptr<Decoder> make_decoder(const JsonReader& json) {
  if (json.type() == "Sequence") return std::make_unique<DecoderSequence>(json);
  return std::make_unique<DecoderFunction>(decoder_function(json));
}

std::unique_ptr<Decoder> make_byte_level_decoder() { return std::make_unique<DecoderFunction>(decode_bytes); }

std::unique_ptr<Decoder> make_word_piece_decoder(const std::string& prefix, bool cleanup) {
  return std::make_unique<DecoderFunction>(
      [=](Parts parts) { return decode_word_piece(std::move(parts), prefix, cleanup); });
}

}  // namespace l2l::text

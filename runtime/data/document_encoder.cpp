#include "runtime/data/document_encoder.h"

#include <algorithm>
#include <mutex>

#include "l2l/errors.h"
#include "runtime/data/data_files.h"

namespace l2l::runtime {
namespace {

std::int32_t end_of_text(const std::filesystem::path& path, const text::Tokenizer& tokenizer) {
  if (path == "bytes") return -1;
  const std::string text = special_token(path, "eos_token");
  std::vector<std::int32_t> ids;
  if (!text.empty()) tokenizer.make_encoder()->encode(text, /*special=*/false, ids);
  return ids.size() == 1 ? ids[0] : -1;
}

std::size_t without_spaces(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::count(text.begin(), text.end(), ' '));
}

std::string spaces_removed(std::string text) {
  std::erase(text, ' ');
  return text;
}

// How many bytes the first tokens of a text stand for, spaces apart, without decoding it from its beginning each time.
// The text is cut into blocks that decode alone to what they are in all of it. Immutable.
class PrefixBytes {
 public:
  // `text`: what all of `ids` decode to, without spaces.
  PrefixBytes(const text::Tokenizer& tokenizer, std::span<const std::int32_t> ids, const std::string& text)
      : tokenizer_(tokenizer), ids_(ids) {
    std::string blocks;
    for (std::size_t token = 1; token < ids.size(); ++token) {
      if (token - blocks_.back().begin < kTokens || !is_border(token)) continue;
      blocks += decoded(blocks_.back().begin, token);
      blocks_.push_back({token, blocks.size()});
    }
    // A decoder that changes the ends of a text changes those of the blocks.
    if (blocks + decoded(blocks_.back().begin, ids.size()) != text) blocks_.resize(1);
  }

  std::size_t of(std::size_t count) const {
    const auto behind = std::upper_bound(blocks_.begin(), blocks_.end(), count,
                                         [](std::size_t token, const Block& block) { return token < block.begin; });
    const Block& block = *std::prev(behind);
    return block.bytes + decoded(block.begin, count).size();
  }

 private:
  static constexpr std::size_t kTokens = 16;  // of a block, at least
  struct Block {
    std::size_t begin = 0, bytes = 0;  // its first token, and what those before it stand for
  };

  std::string decoded(std::size_t begin, std::size_t end) const {
    return spaces_removed(tokenizer_.decode(ids_.subspan(begin, end - begin), /*special=*/true));
  }

  // Between two tokens that each decode alone to what they are beside each other: not where a character goes on, or a
  // word of WordPiece. Bytes in a row become text together (ByteFallback); of these, a newline could be one.
  bool is_border(std::size_t token) const {
    const std::string before = decoded(token - 1, token);
    if (before.empty() || static_cast<unsigned char>(before.back()) < ' ') return false;
    if (before.find("\uFFFD") != std::string::npos) return false;
    return decoded(token - 1, token + 1) == before + decoded(token, token + 1);
  }

  const text::Tokenizer& tokenizer_;
  const std::span<const std::int32_t> ids_;
  std::vector<Block> blocks_{Block()};  // in order
};

}  // namespace

std::unique_ptr<text::Tokenizer> open_data_tokenizer(const std::filesystem::path& tokenizer) {
  try {
    return text::open_tokenizer_or_bytes(tokenizer);
  } catch (const BadInput& error) {
    throw BadInput(std::string("data.tokenizer: ") + error.what(),
                   {.file = error.place().file, .field = error.place().field, .key = "data.tokenizer"});
  }
}

DocumentEncoder::DocumentEncoder(const TextSettings& settings, int threads)
    : settings_(settings),
      tokenizer_(open_data_tokenizer(settings.tokenizer)),
      end_of_text_(end_of_text(settings.tokenizer, *tokenizer_)),
      workers_("tokenizer", threads) {
  for (int thread = 0; thread < threads; ++thread) encoders_.push_back(tokenizer_->make_encoder());
}

std::vector<EncodedDocument> DocumentEncoder::encode(std::span<const TextDocument> documents, std::size_t& failed) {
  constexpr std::size_t kAtOnce = 8;
  std::vector<EncodedDocument> encoded(documents.size());
  const std::size_t blocks = (documents.size() + kAtOnce - 1) / kAtOnce;
  failed = documents.size();
  std::string reason;
  std::mutex mutex;  // of the two
  workers_.parallel_for(static_cast<std::int64_t>(blocks), [&](std::int64_t block, int slot) {
    const std::size_t begin = static_cast<std::size_t>(block) * kAtOnce;
    for (std::size_t i = begin; i < std::min(begin + kAtOnce, documents.size()); ++i) {
      try {
        encoded[i] = encode(documents[i], *encoders_[static_cast<std::size_t>(slot)]);
      } catch (const BadInput& error) {
        const std::lock_guard lock(mutex);
        if (i >= failed) continue;
        failed = i;
        reason = error.what();
      }
    }
  });
  if (failed < documents.size()) throw BadInput(reason);
  return encoded;
}

EncodedDocument DocumentEncoder::encode(const TextDocument& document, text::Encoder& encoder) const {
  EncodedDocument encoded;
  encoded.label = document.label;
  if (!document.words.empty()) {
    encode_words(document, encoder, encoded);
    return encoded;
  }
  if (document.is_pair) {
    encode_pair(document, encoder, encoded);
  } else {
    encode_text(document, encoder, encoded);
  }
  if (settings_.head == models::HeadKind::choice && encoded.ids.empty()) {
    throw BadInput("a choice and its context have no tokens");
  }
  return encoded;
}

void DocumentEncoder::encode_text(const TextDocument& document, text::Encoder& encoder,
                                  EncodedDocument& encoded) const {
  encoder.encode(document.text, /*special=*/!document.is_chat, encoded.ids);
  if (document.is_chat) {
    if (settings_.learn != Learn::all) mark_chat(document, encoder, encoded);
    return;
  }
  if (settings_.label.empty() && end_of_text_ >= 0 && (encoded.ids.empty() || encoded.ids.back() != end_of_text_)) {
    encoded.ids.push_back(end_of_text_);
  }
  if (settings_.learn == Learn::all) return;
  // As TRL counts it: what the prompt alone makes is the prompt.
  std::vector<std::int32_t> prompt;
  encoder.encode(std::string_view(document.text).substr(0, document.first), /*special=*/true, prompt);
  encoded.learnt.assign(encoded.ids.size(), true);
  std::fill_n(encoded.learnt.begin(), std::min(prompt.size(), encoded.learnt.size()), false);
}

// Each word alone; its first token has its class, as in transformers' examples. Byte-level tokenizers get a space
// before each word, since their words begin with one (add_prefix_space).
void DocumentEncoder::encode_words(const TextDocument& document, text::Encoder& encoder,
                                   EncodedDocument& encoded) const {
  const auto ids_of = [&](const std::string& text, bool special) {
    std::vector<std::int32_t> ids;
    encoder.encode(text, special, ids);
    return ids;
  };
  const std::vector<std::int32_t> plain = ids_of("a", false), spaced = ids_of(" a", false), around = ids_of("a", true);
  const std::string space = spaced != plain && spaced.size() <= plain.size() ? " " : "";
  const auto inside = std::search(around.begin(), around.end(), plain.begin(), plain.end());
  if (plain.empty() || inside == around.end())
    throw BadInput("the tokenizer does not tell a word's tokens from others");
  encoded.ids.assign(around.begin(), inside);
  encoded.tags.assign(encoded.ids.size(), kNoLabel);
  for (std::size_t i = 0; i < document.words.size(); ++i) {
    const std::vector<std::int32_t> ids = ids_of(space + document.words[i], false);
    encoded.ids.insert(encoded.ids.end(), ids.begin(), ids.end());
    if (!ids.empty()) encoded.tags.push_back(document.tags[i]);
    encoded.tags.resize(encoded.ids.size(), kNoLabel);
  }
  encoded.ids.insert(encoded.ids.end(), inside + static_cast<std::ptrdiff_t>(plain.size()), around.end());
  encoded.tags.resize(encoded.ids.size(), kNoLabel);
}

void DocumentEncoder::encode_pair(const TextDocument& document, text::Encoder& encoder,
                                  EncodedDocument& encoded) const {
  const std::string_view text = document.text;
  encoder.encode_pair(text.substr(0, document.first), text.substr(document.first), encoded.ids, encoded.types);
  for (const std::int32_t type : encoded.types) {
    if (type < settings_.token_types && type <= kMostTokenType) continue;
    throw BadInput("the tokenizer gives a text of the pair token type " + std::to_string(type) +
                   "; model.token_types = " + std::to_string(settings_.token_types));
  }
}

// A token is learnt if it stands for a byte of what the assistant says. Which bytes a token stands for follows from the
// text of the tokens before it, spaces apart, of which tokenizers add and remove some. Where tokens do not give the
// text back, because it was normalized, the parts are encoded one by one.
void DocumentEncoder::mark_chat(const TextDocument& document, text::Encoder& encoder, EncodedDocument& encoded) const {
  const std::string_view text = document.text;
  std::vector<std::int32_t>& ids = encoded.ids;
  const std::string decoded = spaces_removed(tokenizer_->decode(ids, /*special=*/true));
  if (decoded != spaces_removed(document.text)) {
    ids.clear();
    std::size_t at = 0;
    const auto append = [&](std::size_t end, bool learnt) {
      encoder.encode(text.substr(at, end - at), /*special=*/false, ids);
      encoded.learnt.resize(ids.size(), learnt);
      at = end;
    };
    for (const TextRange& range : document.learnt) {
      append(range.begin, false);
      append(range.end, true);
    }
    return append(text.size(), false);
  }
  encoded.learnt.assign(ids.size(), false);
  const PrefixBytes prefixes(*tokenizer_, ids, decoded);
  // The number of tokens that end at or before so many bytes.
  const auto tokens_within = [&](std::size_t bytes) {
    std::size_t least = 0, most = ids.size();
    while (least < most) {
      const std::size_t middle = (least + most + 1) / 2;
      prefixes.of(middle) <= bytes ? least = middle : most = middle - 1;
    }
    return least;
  };
  std::size_t at = 0, bytes = 0;  // of the text, and before that without spaces
  const auto bytes_to = [&](std::size_t end) {
    bytes += without_spaces(text.substr(at, end - at));
    at = end;
    return bytes;
  };
  for (const TextRange& range : document.learnt) {
    const std::size_t begin = tokens_within(bytes_to(range.begin));
    std::size_t end = tokens_within(bytes_to(range.end));
    if (end < ids.size() && prefixes.of(end) < bytes) ++end;  // it lies across the end
    for (std::size_t token = begin; token < end; ++token) encoded.learnt[token] = true;
  }
}

}  // namespace l2l::runtime

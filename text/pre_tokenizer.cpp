#include "text/pre_tokenizer.h"

#include <functional>
#include <optional>

#include "text/byte_characters.h"
#include "text/characters.h"
#include "text/pattern.h"
#include "text/utf8.h"

namespace l2l::text {

const char* const kGpt2Regex = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

std::string_view Pieces::text_of(const Piece& piece) {
  return piece.bytes ? keep(to_byte_characters(piece.text)) : piece.text;
}

namespace {

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

Behavior behavior_of(const JsonReader& json, const std::string& otherwise = "") {
  const std::string name = otherwise.empty() ? json.string("behavior") : json.string_or("behavior", otherwise);
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  json.refuse("the behavior \"" + name + "\" is not supported");
}

struct Part {
  std::size_t begin = 0, end = 0;
  bool match = false;
};

// Joins parts that belong together and drops those that are removed. `parts`: in order, all of a text.
void arrange(Behavior behavior, std::vector<Part>& parts) {
  std::size_t count = 0;
  const auto keep = [&](const Part& part) { parts[count++] = part; };
  if (behavior == Behavior::removed) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!parts[i].match) keep(parts[i]);
    }
    parts.resize(count);
  } else if (behavior == Behavior::contiguous || behavior == Behavior::merged_with_previous) {
    const bool contiguous = behavior == Behavior::contiguous;
    bool previous = false;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Part part = parts[i];
      const bool joins = contiguous ? part.match == previous : part.match && !previous;
      previous = part.match;
      joins&& count > 0 ? static_cast<void>(parts[count - 1].end = part.end) : keep(part);
    }
    parts.resize(count);
  } else if (behavior == Behavior::merged_with_next) {
    bool next = false;
    std::vector<Part> reversed;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      const bool joins = part->match && !next && !reversed.empty();
      next = part->match;
      joins ? static_cast<void>(reversed.back().begin = part->begin) : reversed.push_back(*part);
    }
    parts.assign(reversed.rbegin(), reversed.rend());
  }
}

// `matches(text, found)` calls found(begin, end) for each match, in order.
using Matches = std::function<void(std::string_view, const std::function<void(std::size_t, std::size_t)>&)>;

Matches characters(bool (*is_match)(char32_t)) {
  return [is_match](std::string_view text, const auto& found) {
    for (std::size_t begin = 0; begin < text.size();) {
      const CodePoint c = first_code_point(text.substr(begin));
      if (is_match(c.value)) found(begin, begin + c.bytes);
      begin += c.bytes;
    }
  };
}

Matches pattern(Pattern pattern) {
  return [pattern = std::make_shared<const Pattern>(std::move(pattern))](std::string_view text, const auto& found) {
    pattern->for_each(text, found);
  };
}

// Cuts every piece.
class Split final : public PreTokenizer {
 public:
  Split(Matches matches, Behavior behavior, bool invert = false)
      : matches_(std::move(matches)), behavior_(behavior), invert_(invert) {}

  void split(Pieces& pieces) const override {
    std::vector<Piece> cut;
    std::vector<Part> parts;
    cut.reserve(pieces.list.size());
    for (const Piece& piece : pieces.list) {
      const std::string_view text = pieces.text_of(piece);
      find_parts(text, parts);
      arrange(behavior_, parts);
      for (const Part& part : parts) {
        if (part.begin == part.end) continue;
        cut.push_back({text.substr(part.begin, part.end - part.begin), piece.first && part.begin == 0});
      }
    }
    pieces.list = std::move(cut);
  }

 private:
  void find_parts(std::string_view text, std::vector<Part>& parts) const {
    parts.clear();
    std::size_t end = 0;
    matches_(text, [&](std::size_t begin, std::size_t past) {
      if (end < begin) parts.push_back({end, begin, invert_});
      parts.push_back({begin, past, !invert_});
      end = past;
    });
    if (end < text.size()) parts.push_back({end, text.size(), invert_});
  }

  const Matches matches_;
  const Behavior behavior_;
  const bool invert_;
};

class PreTokenizerSequence final : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<std::unique_ptr<PreTokenizer>> parts) : parts_(std::move(parts)) {}
  void split(Pieces& pieces) const override {
    for (const auto& part : parts_) part->split(pieces);
  }

 private:
  const std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(std::optional<std::string> regex, bool add_prefix_space) : add_prefix_space_(add_prefix_space) {
    if (regex) words_ = std::make_unique<Split>(pattern(Pattern(Regex(*regex))), Behavior::isolated);
  }

  void split(Pieces& pieces) const override {
    for (Piece& piece : pieces.list) {
      piece.text = pieces.text_of(piece);
      piece.bytes = false;
      if (add_prefix_space_ && !piece.text.starts_with(' ')) piece.text = pieces.keep(" " + std::string(piece.text));
    }
    if (words_) words_->split(pieces);
    for (Piece& piece : pieces.list) piece.bytes = true;
  }

 private:
  std::unique_ptr<Split> words_;
  const bool add_prefix_space_;
};

// Spaces become a visible character, which then begins words.
class Metaspace final : public PreTokenizer {
 public:
  explicit Metaspace(const JsonReader& json) : replacement_(json.string("replacement")) {
    const bool prepends = json.boolean_or("add_prefix_space", true);
    scheme_ = prepends ? json.string_or("prepend_scheme", "always") : "never";
    if (scheme_ != "always" && scheme_ != "first" && scheme_ != "never") {
      json.refuse("the prepend_scheme \"" + scheme_ + "\" is not supported");
    }
    if (json.boolean_or("split", true)) {
      words_ = std::make_unique<Split>(pattern(Pattern(replacement_)), Behavior::merged_with_next);
    }
  }

  void split(Pieces& pieces) const override {
    for (Piece& piece : pieces.list) {
      std::string text;
      for (const char c : pieces.text_of(piece)) c == ' ' ? text += replacement_ : text += c;
      const bool prepends = scheme_ == "always" || (scheme_ == "first" && piece.first);
      if (prepends && !text.starts_with(replacement_)) text.insert(0, replacement_);
      piece = {pieces.keep(std::move(text)), piece.first};
    }
    if (words_) words_->split(pieces);
  }

 private:
  const std::string replacement_;
  std::string scheme_;
  std::unique_ptr<Split> words_;
};

template <typename... Parts>
std::unique_ptr<PreTokenizer> in_sequence(Parts... parts) {
  std::vector<std::unique_ptr<PreTokenizer>> list;
  (list.push_back(std::move(parts)), ...);
  return std::make_unique<PreTokenizerSequence>(std::move(list));
}

std::unique_ptr<PreTokenizer> make_sequence(const JsonReader& json) {
  std::vector<std::unique_ptr<PreTokenizer>> parts;
  for (const JsonReader& part : json.objects("pretokenizers")) parts.push_back(make_pre_tokenizer(part));
  return std::make_unique<PreTokenizerSequence>(std::move(parts));
}

// Runs of word characters, and of what is neither that nor white space.
std::unique_ptr<PreTokenizer> make_whitespace() {
  const auto find = [](std::string_view text, const auto& found) {
    const auto kind = [](char32_t c) { return is_word(c) ? 1 : is_whitespace(c) ? 0 : 2; };
    int run = 0;
    std::size_t begin = 0;
    for (std::size_t place = 0; place < text.size();) {
      const CodePoint c = first_code_point(text.substr(place));
      const int now = kind(c.value);
      if (now != run) {
        if (run != 0) found(begin, place);
        begin = place;
        run = now;
      }
      place += c.bytes;
    }
    if (run != 0) found(begin, text.size());
  };
  return std::make_unique<Split>(find, Behavior::removed, /*invert=*/true);
}

}  // namespace

std::unique_ptr<PreTokenizer> make_bert_pre_tokenizer() {
  return in_sequence(std::make_unique<Split>(characters(is_whitespace), Behavior::removed),
                     std::make_unique<Split>(characters(is_bert_punctuation), Behavior::isolated));
}

std::unique_ptr<PreTokenizer> make_byte_level_pre_tokenizer(const std::string& regex, bool add_prefix_space) {
  return std::make_unique<ByteLevel>(regex, add_prefix_space);
}

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonReader& json) {
  const std::string type = json.type();
  if (type == "Sequence") return make_sequence(json);
  if (type == "ByteLevel") {
    return std::make_unique<ByteLevel>(
        json.boolean_or("use_regex", true) ? std::optional<std::string>(kGpt2Regex) : std::nullopt,
        json.boolean("add_prefix_space"));
  }
  if (type == "Split") {
    return std::make_unique<Split>(pattern(Pattern(json)), behavior_of(json), json.boolean("invert"));
  }
  if (type == "Metaspace") return std::make_unique<Metaspace>(json);
  if (type == "BertPreTokenizer") return make_bert_pre_tokenizer();
  if (type == "Whitespace") return make_whitespace();
  if (type == "WhitespaceSplit") return std::make_unique<Split>(characters(is_whitespace), Behavior::removed);
  if (type == "Digits") {
    const bool single = json.boolean("individual_digits");
    return std::make_unique<Split>(characters(is_numeric), single ? Behavior::isolated : Behavior::contiguous);
  }
  if (type == "Punctuation") {
    return std::make_unique<Split>(characters(is_bert_punctuation), behavior_of(json, "Isolated"));
  }
  if (type == "CharDelimiterSplit") {
    return std::make_unique<Split>(pattern(Pattern(json.string("delimiter"))), Behavior::removed);
  }
  json.refuse("the pre-tokenizer \"" + type + "\" is not supported");
}

}  // namespace l2l::text

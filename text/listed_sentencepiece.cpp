#include <bit>
#include <cstring>
#include <unordered_map>

#include "l2l/errors.h"
#include "text/listed_tokenizer.h"
#include "text/tokenizer_config.h"
#include "text/tokenizer_files.h"
#include "text/utf8.h"

namespace l2l::text {
namespace {

// One field of a message in Protocol Buffers' wire format.
struct Field {
  std::uint64_t number = 0;
  std::uint64_t value = 0;  // of an integer or a fixed number
  std::string_view bytes;   // of a text or a message
};

// Reads the fields of a message one by one. Throws BadInput where it is none.
class Message {
 public:
  Message(std::string_view bytes, const std::string& file) : rest_(bytes), file_(file) {}

  bool next(Field& field) {
    if (rest_.empty()) return false;
    const std::uint64_t key = varint();
    field = {key >> 3, 0, {}};
    switch (key & 7) {
      case 0:
        field.value = varint();
        break;
      case 1:
        std::memcpy(&field.value, take(8).data(), 8);
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        std::memcpy(&field.value, take(4).data(), 4);
        break;
      default:
        fail();
    }
    return true;
  }

 private:
  [[noreturn]] void fail() const { throw BadInput(file_ + ": not a SentencePiece model"); }
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) fail();
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail();
  }

  std::string_view rest_;
  const std::string& file_;
};

// Numbers of fields: sentencepiece_model.proto.
ListedToken read_piece(std::string_view bytes, const std::string& file) {
  ListedToken token;
  token.type = ListedType::normal;
  Message message(bytes, file);
  for (Field field; message.next(field);) {
    if (field.number == 1) token.text = field.bytes;
    if (field.number == 2) token.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    if (field.number == 3) token.type = static_cast<ListedType>(field.value);
  }
  const auto type = static_cast<std::int32_t>(token.type);
  if (type < 1 || type > 6 || valid_prefix(token.text) != token.text.size()) {
    throw BadInput(file + ": not a SentencePiece model");
  }
  return token;
}

void read_trainer(std::string_view bytes, const std::string& file) {
  constexpr std::uint64_t kUnigram = 1, kBpe = 2;
  std::uint64_t kind = kUnigram;
  Message message(bytes, file);
  for (Field field; message.next(field);) {
    if (field.number == 3) kind = field.value;
  }
  if (kind != kBpe) throw BadInput(file + ": is no BPE" + kNotInLists);
}

void read_normalizer(std::string_view bytes, const std::string& file, ListedTokenizer& listed) {
  bool removes_spaces = true;
  std::string_view table;
  Message message(bytes, file);
  for (Field field; message.next(field);) {
    if (field.number == 2) table = field.bytes;
    if (field.number == 3) listed.space_first = field.value != 0;
    if (field.number == 4) removes_spaces = field.value != 0;
  }
  if (!table.empty()) throw BadInput(file + ": normalizes texts" + kNotInLists);
  if (removes_spaces) throw BadInput(file + ": removes extra spaces" + kNotInLists);
}

// Those that tokenizer_config.json or added_tokens.json adds, or says more of.
void put_tokens_beside(const TokenizerConfig& config, ListedTokenizer& listed) {
  std::unordered_map<std::string, TokenId> ids;
  for (std::size_t id = 0; id < listed.tokens.size(); ++id) {
    ids.emplace(listed.tokens[id].text, static_cast<TokenId>(id));
  }
  const auto find = [&](const std::string& text) {
    const auto found = ids.find(text);
    return found == ids.end() ? std::nullopt : std::optional(found->second);
  };
  for (const AddedToken& token : config.added_tokens(find, static_cast<std::int64_t>(listed.tokens.size()))) {
    if (token.id != listed.unknown) put_added(listed, token, config.place_of_added());
  }
}

}  // namespace

ListedTokenizer list_sentencepiece(const std::filesystem::path& path) {
  const std::string file = path.string(), text = read_tokenizer_file(path);
  ListedTokenizer listed;
  int bytes = 0;
  Message message(text, file);
  for (Field field; message.next(field);) {
    if (field.number == 1) {
      listed.tokens.push_back(read_piece(field.bytes, file));
      const ListedType type = listed.tokens.back().type;
      bytes += type == ListedType::byte ? 1 : 0;
      if (type == ListedType::unknown) listed.unknown = static_cast<TokenId>(listed.tokens.size() - 1);
    }
    if (field.number == 2) read_trainer(field.bytes, file);
    if (field.number == 3) read_normalizer(field.bytes, file, listed);
  }
  if (bytes != 256) throw BadInput(file + ": has no tokens for bytes" + kNotInLists);
  put_tokens_beside(TokenizerConfig(path.parent_path()), listed);
  return listed;
}

}  // namespace l2l::text

// Tokenizers that are no JSON; the first byte says which: v, a vocabulary list of BERT; r, ranks of tiktoken; p, a
// SentencePiece model as its library reads it; l, the same as lists. They are refused with BadInput, or encode texts,
// and decode what they made.
#include "l2l/errors.h"
#include "tests/fuzz/encode_texts.h"
#include "tests/fuzz/target.h"
#include "text/listed_tokenizer.h"
#include "text/tokenizer_files.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace l2l;
  if (size == 0) return 0;
  const std::filesystem::path file = fuzz::write_file("vocabulary", data + 1, size - 1);
  try {
    switch (data[0]) {
      case 'v':
        fuzz::encode_texts(*text::open_vocabulary_list(file));
        break;
      case 'r':
        fuzz::encode_texts(*text::open_ranks(file));
        break;
      case 'p':
        fuzz::encode_texts(*text::open_sentencepiece(file));
        break;
      case 'l': {
        const text::ListedTokenizer listed = text::list_sentencepiece(file);
        if (listed.unknown && listed.tokens.size() <= static_cast<std::size_t>(*listed.unknown)) __builtin_trap();
        break;
      }
      default:
        break;
    }
  } catch (const BadInput&) {
  }
  return 0;
}

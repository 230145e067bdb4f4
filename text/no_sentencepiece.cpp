#include "l2l/errors.h"
#include "text/tokenizer_files.h"

namespace l2l::text {

std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& file) {
  throw BadInput(file.string() +
                 ": this build has no SentencePiece: install libsentencepiece-dev and configure again, or use a "
                 "tokenizer.json");
}

}  // namespace l2l::text

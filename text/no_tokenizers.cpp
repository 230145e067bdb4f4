#include "l2l/errors.h"
#include "text/listed_tokenizer.h"
#include "text/tokenizer.h"

namespace l2l::text {

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path) {
  throw BadInput(path.string() +
                 ": this build has no tokenizers: install libpcre2-dev and libicu-dev and configure again");
}

ListedTokenizer list_tokenizer(const std::filesystem::path& path) {
  open_tokenizer(path);
  return {};
}

ListedTokenizer list_bytes() { throw BadInput("this build has no tokenizers: install libpcre2-dev and libicu-dev"); }

}  // namespace l2l::text

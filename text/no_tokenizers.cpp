#include "l2l/errors.h"
#include "text/tokenizer.h"

namespace l2l::text {

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path) {
  throw BadInput(path.string() +
                 ": this build has no tokenizers: install libpcre2-dev and libicu-dev and configure again");
}

}  // namespace l2l::text

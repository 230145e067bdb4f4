// A tokenizer.json is refused with BadInput, or encodes texts, and decodes what it made.
#include "l2l/errors.h"
#include "tests/fuzz/encode_texts.h"
#include "tests/fuzz/target.h"
#include "text/tokenizer_files.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace l2l;
  try {
    fuzz::encode_texts(*text::open_tokenizer_json(fuzz::write_file("tokenizer.json", data, size)));
  } catch (const BadInput&) {
  }
  return 0;
}

// A tokenizer.json is refused with BadInput, or encodes texts, and decodes what it made.
#include "l2l/errors.h"
#include "tests/fuzz/target.h"
#include "text/tokenizer_files.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace l2l;
  constexpr const char* kTexts[] = {"", "Hello, world!", " 12  \n\tx\xc3\xa9\xe4\xb8\x96\xf0\x9f\x99\x82", "\xff\xfe"};
  try {
    const auto tokenizer = text::open_tokenizer_json(fuzz::write_file("tokenizer.json", data, size));
    const auto encoder = tokenizer->make_encoder();
    for (const char* const text : kTexts) {
      std::vector<std::int32_t> ids;
      encoder->encode(text, /*special=*/true, ids);
      for (const std::int32_t id : ids) {
        if (id < 0 || id >= tokenizer->vocabulary()) __builtin_trap();
      }
      static_cast<void>(tokenizer->decode(ids, /*special=*/true));
    }
  } catch (const BadInput&) {
  }
  return 0;
}

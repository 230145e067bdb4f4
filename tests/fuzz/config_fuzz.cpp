// Configs: refused with BadInput, or written as a text that gives the same options.
#include <string>

#include "l2l/errors.h"
#include "l2l/options.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace l2l;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const Options options = parse_options(text, "config");
    const std::string written = to_toml(options);
    if (to_toml(parse_options(written, "written")) != written) __builtin_trap();
    validate_options(options);
  } catch (const BadInput&) {
  }
  try {
    Options options;
    set_option(options, text);
  } catch (const BadInput&) {
  }
  return 0;
}

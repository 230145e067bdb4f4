// JSON Lines, tables and separated text, compressed or not: the first byte says which. They are refused with BadInput,
// or give documents that are not empty and whose ranges lie in them.
#include "l2l/errors.h"
#include "runtime/data/text_documents.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace l2l;
  using runtime::Learn;
  using runtime::TextKind;
  if (size == 0) return 0;
  runtime::TextSettings settings;
  settings.kind = static_cast<TextKind>(data[0] % 4);
  settings.learn = static_cast<Learn>(data[0] / 4 % 3);
  constexpr const char* kTemplates[] = {"chatml", "llama3", "mistral", "gemma", "zephyr"};
  settings.chat_template = kTemplates[data[0] / 12 % 5];
  if (settings.kind == TextKind::text) settings.separator = "--";
  if (data[0] >= 240) settings.columns = {"a", "b"};
  settings.tokenizer = "bytes";
  try {
    const auto reader = runtime::read_documents(fuzz::write_file("source", data + 1, size - 1), settings);
    for (runtime::TextDocument document; reader->next(document);) {
      if (document.text.empty() || document.first > document.text.size()) __builtin_trap();
      for (const runtime::TextRange& range : document.learnt) {
        if (range.begin > range.end || range.end > document.text.size()) __builtin_trap();
      }
    }
  } catch (const BadInput&) {
  }
  return 0;
}

#include "runtime/hub_companions.h"

#include "core/files.h"
#include "core/log.h"
#include "l2l/errors.h"
#include "models/hub/config.h"
#include "text/tokenizer_files.h"

namespace l2l::runtime {
namespace {

constexpr const char* kCarried[] = {
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "special_tokens_map.json",
};

// Empty when it cannot be read; the run's own config.json is then made from its options alone.
std::string read_text(const std::filesystem::path& path) {
  try {
    const InputFile file(path);
    return file.text();
  } catch (const Error& error) {
    log(LogLevel::warning, std::string(error.what()) + "; its own keys are not carried along");
    return {};
  }
}

}  // namespace

eps::Companions hub_companions(const ModelOptions& model, const std::filesystem::path& from,
                               const std::string& tokenizer) {
  eps::Companions companions;
  std::string original;
  if (!from.empty()) {
    if (is_there(from / "config.json")) original = read_text(from / "config.json");
    for (const char* const name : kCarried) {
      if (is_there(from / name)) companions.copies.push_back(from / name);
    }
  }
  if (tokenizer != DataOptions().tokenizer && (from.empty() || !text::has_tokenizer(from))) {
    for (const std::filesystem::path& file : text::tokenizer_files(tokenizer)) companions.copies.push_back(file);
  }
  companions.texts["config.json"] = models::hub_config(model, original);
  return companions;
}

}  // namespace l2l::runtime

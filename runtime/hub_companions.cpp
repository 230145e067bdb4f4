#include "runtime/hub_companions.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "core/files.h"
#include "core/log.h"
#include "l2l/errors.h"
#include "models/hub/config.h"
#include "text/tokenizer_files.h"

namespace l2l::runtime {
namespace {

constexpr const char* kGeneration = "generation_config.json";
constexpr std::string_view kTokenizer[] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
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

// Whether the tokenizer in that directory is the run's, or lies beside it.
bool has_tokenizer_of_run(const std::filesystem::path& from, const std::string& tokenizer, std::uint64_t hash) {
  if (from.empty() || !text::has_tokenizer(from)) return false;
  std::error_code ignored;
  return text::hash_of(from) == hash ||
         std::filesystem::equivalent(from, std::filesystem::path(tokenizer).parent_path(), ignored);
}

// Under which programs look for the first of a tokenizer's files, whatever that is called.
std::string usual_name(const std::vector<std::filesystem::path>& files) {
  const std::string name = files[0].filename().string(), extension = files[0].extension().string();
  if (text::has_merges(files) || std::ranges::find(kTokenizer, name) != std::end(kTokenizer)) return name;
  return extension == ".json" ? "tokenizer.json" : extension == ".txt" ? "vocab.txt" : "tokenizer.model";
}

}  // namespace

eps::Companions hub_companions(const ModelOptions& model, const std::filesystem::path& from,
                               const std::string& tokenizer, std::uint64_t hash) {
  eps::Companions companions;
  std::string original;
  if (!from.empty()) {
    if (is_there(from / "config.json")) original = read_text(from / "config.json");
    if (is_there(from / kGeneration)) companions.copies[kGeneration] = from / kGeneration;
  }
  const auto copy_tokenizer = [&](const std::filesystem::path& folder) {
    for (const std::string_view name : kTokenizer) {
      if (is_there(folder / name)) companions.copies[std::string(name)] = folder / name;
    }
  };
  if (tokenizer == DataOptions().tokenizer) {
    if (!from.empty()) copy_tokenizer(from);
  } else if (has_tokenizer_of_run(from, tokenizer, hash)) {
    copy_tokenizer(from);
  } else if (!is_there(tokenizer)) {
    log(LogLevel::warning, "data.tokenizer = \"" + tokenizer + "\" has gone; the checkpoint is written without it");
  } else if (is_folder(tokenizer)) {
    copy_tokenizer(tokenizer);
  } else {
    const std::vector<std::filesystem::path> files = text::tokenizer_files(tokenizer);
    for (const std::filesystem::path& file : files) companions.copies[file.filename().string()] = file;
    auto vocabulary = companions.copies.extract(files[0].filename().string());
    vocabulary.key() = usual_name(files);
    companions.copies.insert(std::move(vocabulary));
  }
  companions.texts["config.json"] = models::hub_config(model, original);
  return companions;
}

}  // namespace l2l::runtime

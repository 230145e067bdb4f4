#include "text/tokenizer_files.h"

#include <algorithm>

#include "core/error_place.h"
#include "core/files.h"
#include "core/hash.h"
#include "l2l/errors.h"

namespace l2l::text {
namespace {

constexpr Bytes kMostBytes = 512 << 20;

// Empty where there is none.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  for (const char* const name : {"tokenizer.json", "tokenizer.model"}) {
    if (is_there(folder / name)) return {folder / name};
  }
  if (is_there(folder / "vocab.json") && is_there(folder / "merges.txt")) {
    return {folder / "vocab.json", folder / "merges.txt"};
  }
  for (const char* const name : {"vocab.txt", "spiece.model", "sentencepiece.bpe.model"}) {
    if (is_there(folder / name)) return {folder / name};
  }
  return {};
}

}  // namespace

bool has_tokenizer(const std::filesystem::path& folder) { return is_folder(folder) && !files_in(folder).empty(); }

std::vector<std::filesystem::path> tokenizer_files(const std::filesystem::path& path) {
  if (!is_there(path)) throw BadInput(path.string() + ": there is no such file or directory", of_file(path.string()));
  if (!is_folder(path)) return {path};
  std::vector<std::filesystem::path> files = files_in(path);
  if (!files.empty()) return files;
  throw BadInput(
      path.string() +
          ": has no tokenizer: none of tokenizer.json, tokenizer.model, vocab.json with merges.txt, vocab.txt",
      of_file(path.string()));
}

std::string read_tokenizer_file(const std::filesystem::path& file) {
  try {
    const InputFile input(file);
    if (input.bytes() > kMostBytes) throw BadInput(file.string() + ": is too long for a tokenizer");
    return input.text();
  } catch (const CorruptFile& error) {
    throw BadInput(error.what(), error.place());
  }
}

std::uint64_t hash_of(const std::filesystem::path& path) {
  Hash64 hash;
  for (const std::filesystem::path& file : tokenizer_files(path)) {
    const std::string text = read_tokenizer_file(file);
    hash.update(std::as_bytes(std::span(text)));
  }
  return hash.value();
}

}  // namespace l2l::text

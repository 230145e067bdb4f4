#include "text/tokenizer_files.h"

#include <algorithm>

#include "core/error_place.h"
#include "core/files.h"
#include "core/hash.h"
#include "l2l/errors.h"
#include "text/base64.h"

namespace l2l::text {
namespace {

constexpr Bytes kMostBytes = 512 << 20;
// As XLM-RoBERTa, CamemBERT and others of fairseq have it, whose ids are not those of its pieces.
constexpr const char* kFairseq = "sentencepiece.bpe.model";

// Empty where there is none.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  for (const char* const name : {"tokenizer.json", "tokenizer.model"}) {
    if (is_there(folder / name)) return {folder / name};
  }
  if (is_there(folder / "vocab.json") && is_there(folder / "merges.txt")) {
    return {folder / "vocab.json", folder / "merges.txt"};
  }
  for (const char* const name : {"vocab.txt", "spiece.model", kFairseq}) {
    if (is_there(folder / name)) return {folder / name};
  }
  return {};
}

// Whether settings and further tokens beside the file belong to it: a tokenizer.json and a list of ranks have their
// own.
bool reads_what_is_beside(const std::filesystem::path& file) {
  const std::string extension = file.extension().string();
  return extension == ".txt" || (extension != ".json" && !has_ranks(file));
}

void append_beside(const std::filesystem::path& folder, std::vector<std::filesystem::path>& files) {
  const auto append = [&](const char* name) {
    const bool found = is_there(folder / name);
    if (found) files.push_back(folder / name);
    return found;
  };
  append("tokenizer_config.json");
  if (append("added_tokens.json")) append("special_tokens_map.json");
}

std::vector<std::filesystem::path> vocabulary_files(const std::filesystem::path& path) {
  if (!is_there(path)) throw BadInput(path.string() + ": there is no such file or directory", of_file(path.string()));
  std::vector<std::filesystem::path> files = is_folder(path) ? files_in(path) : std::vector{path};
  if (!files.empty() && files[0].filename() == kFairseq) {
    throw BadInput(files[0].string() +
                       ": models with a file of this name number its pieces otherwise than the file does; save a "
                       "tokenizer.json by transformers: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)",
                   of_file(files[0].string()));
  }
  if (!files.empty()) return files;
  throw BadInput(
      path.string() +
          ": has no tokenizer: none of tokenizer.json, tokenizer.model, vocab.json with merges.txt, vocab.txt, "
          "spiece.model",
      of_file(path.string()));
}

// Throws BadInput when it cannot be read or is longer than any tokenizer.
std::string read_any(const std::filesystem::path& file) {
  try {
    const InputFile input(file);
    if (input.bytes() > kMostBytes) {
      throw BadInput(file.string() + ": is too long for a tokenizer", of_file(file.string()));
    }
    return input.text();
  } catch (const CorruptFile& error) {
    throw BadInput(error.what(), error.place());
  }
}

}  // namespace

bool has_tokenizer(const std::filesystem::path& folder) { return is_folder(folder) && !files_in(folder).empty(); }

std::vector<std::filesystem::path> tokenizer_files(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> files = vocabulary_files(path);
  if (has_merges(files) || reads_what_is_beside(files[0])) append_beside(files[0].parent_path(), files);
  return files;
}

bool has_merges(const std::vector<std::filesystem::path>& files) {
  return files.size() > 1 && files[1].filename() == "merges.txt";
}

bool has_ranks(const std::filesystem::path& file) {
  const std::string text = read_any(file);
  const std::string_view line = std::string_view(text).substr(0, std::min<std::size_t>(text.find('\n'), 200));
  const std::size_t space = line.find(' ');
  return space != std::string_view::npos && space > 0 && decode_base64(line.substr(0, space)).has_value();
}

std::string read_tokenizer_file(const std::filesystem::path& file) {
  std::string text = read_any(file);
  if (is_git_lfs_pointer(text)) throw BadInput(file.string() + ": " + kGitLfsPointer, of_file(file.string()));
  return text;
}

std::uint64_t hash_of(const std::filesystem::path& path) {
  Hash64 hash;
  for (const std::filesystem::path& file : tokenizer_files(path)) {
    const std::string text = read_any(file);
    hash.update(std::as_bytes(std::span(text)));
  }
  return hash.value();
}

}  // namespace l2l::text

#include <algorithm>

#include "core/error_place.h"
#include "text/base64.h"
#include "text/tokenizer_files.h"

namespace l2l::text {
namespace {

// A list of ranks begins with a token in base64 and " 0"; SentencePiece's files are binary.
bool has_ranks(const std::filesystem::path& file) {
  const std::string text = read_tokenizer_file(file);
  const std::string_view line = std::string_view(text).substr(0, std::min<std::size_t>(text.find('\n'), 200));
  const std::size_t space = line.find(' ');
  return space != std::string_view::npos && space > 0 && decode_base64(line.substr(0, space)).has_value();
}

std::unique_ptr<Tokenizer> open_file(const std::filesystem::path& file) {
  const std::string extension = file.extension().string();
  if (extension == ".json") return open_tokenizer_json(file);
  if (extension == ".txt") return open_vocabulary_list(file);
  return has_ranks(file) ? open_ranks(file) : open_sentencepiece(file);
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path) {
  const std::vector<std::filesystem::path> files = tokenizer_files(path);
  return naming_file(files[0].string(), [&] {
    return files.size() == 2 ? open_vocabulary_and_merges(files[0], files[1]) : open_file(files[0]);
  });
}

}  // namespace l2l::text

#include "core/error_place.h"
#include "text/tokenizer_files.h"

namespace l2l::text {
namespace {

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
    return has_merges(files) ? open_vocabulary_and_merges(files[0], files[1]) : open_file(files[0]);
  });
}

}  // namespace l2l::text

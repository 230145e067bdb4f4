#include "l2l/errors.h"
#include "text/pipeline.h"
#include "text/tokenizer_files.h"

namespace l2l::text {
namespace {

constexpr int kMostNesting = 64;

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer_json(const std::filesystem::path& file) {
  const std::string text = read_tokenizer_file(file);
  if (nests_too_deep(text, kMostNesting)) throw BadInput(file.string() + ": is nested too deep");
  const nlohmann::json json = parse_json(text);
  if (json.is_discarded()) throw BadInput(file.string() + ": is not JSON in UTF-8");
  return make_pipeline(JsonReader(json, file.string() + ": tokenizer"));
}

}  // namespace l2l::text

#include "l2l/errors.h"
#include "text/pipeline.h"
#include "text/tokenizer_files.h"

namespace l2l::text {
namespace {

constexpr int kMostNesting = 64;

// Whether brackets are nested too deep. `text` need not be JSON.
bool nests_too_deep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && (text[i] == '{' || text[i] == '[')) {
      if (++depth > kMostNesting) return true;
    } else if (!quoted && (text[i] == '}' || text[i] == ']')) {
      --depth;
    }
  }
  return false;
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer_json(const std::filesystem::path& file) {
  const std::string text = read_tokenizer_file(file);
  if (nests_too_deep(text)) throw BadInput(file.string() + ": is nested too deep");
  const nlohmann::json json = parse_json(text);
  if (json.is_discarded()) throw BadInput(file.string() + ": is not JSON in UTF-8");
  return make_pipeline(JsonReader(json, file.string() + ": tokenizer"));
}

}  // namespace l2l::text

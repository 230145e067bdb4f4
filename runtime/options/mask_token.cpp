#include "runtime/options/mask_token.h"

#include <optional>
#include <string>
#include <vector>

#include "core/error_place.h"
#include "l2l/errors.h"
#include "models/architecture.h"
#include "runtime/data/chat_templates.h"
#include "runtime/data/document_encoder.h"
#include "text/tokenizer.h"

namespace l2l::runtime {
namespace {

namespace fs = std::filesystem;

bool masks(const Options& options) {
  const DataOptions& data = options.data;
  const bool has_data = data.has_training() || !data.validation.empty() || data.validation_source != nullptr;
  return has_data && options.model.head == "language" && models::architecture_of(options.model.architecture).encoder;
}

std::vector<std::string> spellings(const fs::path& tokenizer) {
  const std::string token = special_token(tokenizer, "mask_token");
  return token.empty() ? std::vector<std::string>{"[MASK]", "<mask>"} : std::vector<std::string>{token};
}

// Nothing: the text is none of the tokenizer's tokens.
std::optional<std::int32_t> id_of(const std::string& token, const text::Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids;
  tokenizer.make_encoder()->encode(token, /*special=*/false, ids);
  return ids.size() == 1 && tokenizer.decode(ids, /*special=*/true) == token ? std::optional(ids[0]) : std::nullopt;
}

}  // namespace

void set_mask_token(Options& options) {
  const fs::path path = options.data.tokenizer;
  if (options.data.mask_token >= 0 || path == "bytes" || !masks(options)) return;
  const std::int64_t vocabulary = options.model.vocabulary;
  const std::unique_ptr<text::Tokenizer> tokenizer = runtime::open_data_tokenizer(path);
  try {
    std::string looked_for;
    for (const std::string& token : spellings(path)) {
      if (const std::optional<std::int32_t> id = id_of(token, *tokenizer)) {
        if (*id < vocabulary) {
          options.data.mask_token = *id;
          return;
        }
        throw BadInput(path.string() + ": its token \"" + token + "\" is " + std::to_string(*id) +
                       ", which is not below model.vocabulary = " + std::to_string(vocabulary));
      }
      looked_for += (looked_for.empty() ? "\"" : " or \"") + token + "\"";
    }
    if (vocabulary > tokenizer->vocabulary()) return;
    throw BadInput(path.string() + ": has no token " + looked_for);
  } catch (const BadInput& error) {
    throw BadInput(std::string(error.what()) +
                       "; to mask by another token than the tokenizer's own, set data.mask_token to its id",
                   of_file(path.string(), "data.mask_token"));
  }
}

}  // namespace l2l::runtime

// Text files as files of token ids, in the user's cache (runtime/data/cache.h).
#pragma once

#include "runtime/data/data_files.h"
#include "runtime/data/text_documents.h"

namespace l2l::runtime {

// The documents of `texts` as token ids: uint16, or uint32 where the tokenizer has more or flags are needed (learn). To
// each belong the tokens that the tokenizer puts around a text and, where it names one that ends a text, that. What is
// not in the cache is made now, with progress in the log; files that were not used for longest then go until the cache
// is below its limit. A name in the cache follows from what text and tokenizer hold, and from the settings.
// settings.tokenizer: "bytes", each byte a token, or as text::open_tokenizer() takes it. Throws BadInput naming file,
// line and reason, also where there is no place for the cache.
DataFiles tokenized(const std::string& key, const std::vector<DataFile>& texts, const TextSettings& settings);

}  // namespace l2l::runtime

// Text files as files of token ids, in a cache: $XDG_CACHE_HOME/l2l/tokens, or else ~/.cache/l2l/tokens.
#pragma once

#include "runtime/data/dataset.h"

namespace l2l::runtime {

// `texts` with a file of ids in place of each: uint16, or uint32 where the tokenizer has more. Each text file is one
// text, with the tokens that the tokenizer puts around it. What is not in the cache is made now, and logged; files that
// were not used for longest then go until the cache is below its limit. A name in the cache follows from what text and
// tokenizer hold. Throws BadInput naming file and reason, also where there is no home for the cache.
DataFiles tokenized(const DataFiles& texts, const std::filesystem::path& tokenizer);

}  // namespace l2l::runtime

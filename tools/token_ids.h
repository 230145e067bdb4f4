// Token ids as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace l2l::tools {

// The ids in a line, white space between them; whether a model or tokenizer has them is not looked at. `place`: of the
// line, for the message ("ids.txt: line 3"). Throws BadInput where a word is no whole number of 32 bits.
std::vector<std::int32_t> token_ids(std::string_view line, const std::string& place);

}  // namespace l2l::tools

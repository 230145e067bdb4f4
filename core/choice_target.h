// The target of a question's rows, where a head tells the right one of several choices: each choice has a row, and the
// rows of a question follow each other, with rows of target -1 between them.
#pragma once

#include <cstdint>

namespace l2l {

inline constexpr std::int32_t kMostChoices = 255;
inline constexpr std::int32_t kFurtherChoice = -2;  // target of a question's rows but the first

// Target of the first row.
constexpr std::int32_t choice_target(std::int32_t choices, std::int32_t right) { return choices * 256 + right; }
constexpr std::int32_t choices_of(std::int32_t target) { return target / 256; }
constexpr std::int32_t right_choice(std::int32_t target) { return target % 256; }

}  // namespace l2l

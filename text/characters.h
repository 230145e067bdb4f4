// Classes of characters as Hugging Face's tokenizers count them. Most follow ICU's version of Unicode; those that the
// library takes from older tables follow these, so that newer characters do not belong to them.
#pragma once

namespace l2l::text {

bool is_whitespace(char32_t c);  // property White_Space
bool is_numeric(char32_t c);     // general categories Nd, Nl, No
bool is_word(char32_t c);        // \w of Unicode's regular expressions: letters, marks, digits, connectors
bool is_mark(char32_t c);        // general categories M*, of Unicode 9

bool is_nonspacing_mark(char32_t c);  // general category Mn, of Unicode 8
bool is_other(char32_t c);            // general categories Cc, Cf and Co, of Unicode 8
// General categories P*, of Unicode 8, and all of ASCII's symbols.
bool is_bert_punctuation(char32_t c);
// CJK ideographs as BERT counts them.
bool is_chinese(char32_t c);

}  // namespace l2l::text

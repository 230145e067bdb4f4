// Classes of characters, by ICU's version of Unicode. Names as in Rust's standard library, which Hugging Face's
// tokenizers use.
#pragma once

namespace l2l::text {

bool is_whitespace(char32_t c);  // property White_Space
bool is_numeric(char32_t c);     // general categories Nd, Nl, No
bool is_punctuation(char32_t c);         // general categories P*
bool is_mark(char32_t c);                // general categories M*
bool is_nonspacing_mark(char32_t c);     // general category Mn
bool is_other(char32_t c);               // general categories C*
bool is_word(char32_t c);                // \w of Unicode's regular expressions: letters, marks, digits, connectors

// Punctuation of BERT: Unicode's and all of ASCII's symbols.
bool is_bert_punctuation(char32_t c);
// CJK ideographs as BERT counts them.
bool is_chinese(char32_t c);

}  // namespace l2l::text

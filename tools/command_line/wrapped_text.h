// Text in lines.
#pragma once

#include <string>

namespace l2l::tools {

// `text` in lines of at most `columns` bytes, which only a longer word exceeds. The first line goes on from one that
// has `indent` columns already; the others begin with `indent` spaces. A text that fits stays as it is; else words have
// one space between them.
std::string wrapped(const std::string& text, int columns, int indent);

}  // namespace l2l::tools

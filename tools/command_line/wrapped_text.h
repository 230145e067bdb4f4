// Text in lines.
#pragma once

#include <string>

namespace l2l::tools {

// `text` in lines that end before column `columns`, which only a word may exceed. The first begins at column `indent`
// of a line that is begun; the others begin with `indent` spaces.
std::string wrapped(const std::string& text, int columns, int indent);

}  // namespace l2l::tools

#include "tools/command_line/wrapped_text.h"

#include <algorithm>
#include <sstream>

namespace l2l::tools {

std::string wrapped(const std::string& text, int columns, int indent) {
  const auto begin = static_cast<std::size_t>(indent), end = static_cast<std::size_t>(std::max(columns, 1));
  if (begin + text.size() <= end) return text;
  std::istringstream words(text);
  std::string lines;
  std::size_t column = begin;
  for (std::string word; words >> word;) {
    if (column > begin && column + 1 + word.size() > end) {
      lines += "\n" + std::string(begin, ' ');
      column = begin;
    }
    const std::string space = column == begin ? "" : " ";
    lines += space + word;
    column += space.size() + word.size();
  }
  return lines;
}

}  // namespace l2l::tools

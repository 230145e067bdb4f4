#include "tools/token_ids.h"

#include <algorithm>
#include <charconv>

#include "l2l/errors.h"

namespace l2l::tools {

std::vector<std::int32_t> token_ids(std::string_view line, const std::string& place) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  std::vector<std::int32_t> ids;
  for (std::size_t begin = line.find_first_not_of(kSpace); begin < line.size();) {
    const std::size_t end = std::min(line.find_first_of(kSpace, begin), line.size());
    std::int32_t id = 0;
    const auto [past, error] = std::from_chars(line.data() + begin, line.data() + end, id);
    if (error != std::errc() || past != line.data() + end) {
      throw BadInput(place +
                     ": expected token ids (whole numbers of 32 bits) with white space between them, but word " +
                     std::to_string(ids.size() + 1) + " is none");
    }
    ids.push_back(id);
    begin = line.find_first_not_of(kSpace, end);
  }
  return ids;
}

}  // namespace l2l::tools

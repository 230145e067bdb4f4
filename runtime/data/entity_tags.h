// Tags of words that mark entities. BIO (CoNLL-2000): the first word of one is "B-TYPE", further ones are "I-TYPE", all
// others "O". IOBES has two more: the last of several words is "E-TYPE", the only word of an entity "S-TYPE".
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace l2l::runtime {

// Whether tags of these names mark entities; those of parts of speech do not.
inline bool are_entity_tags(std::span<const std::string> names) {
  const auto is_one = [](const std::string& name) {
    return name == "O" ||
           (name.size() > 2 && name[1] == '-' && std::string_view("BIES").find(name[0]) != std::string_view::npos);
  };
  return !names.empty() && std::ranges::all_of(names, is_one);
}

}  // namespace l2l::runtime

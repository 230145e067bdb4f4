// Tags of words that mark entities: the first word of one is "B-TYPE", further ones are "I-TYPE", all others "O"
// (CoNLL-2000).
#pragma once

#include <algorithm>
#include <span>
#include <string>

namespace l2l::runtime {

// Whether tags of these names mark entities; those of parts of speech do not.
inline bool are_bio_tags(std::span<const std::string> names) {
  const auto is_one = [](const std::string& name) {
    return name == "O" || (name.size() > 2 && (name.starts_with("B-") || name.starts_with("I-")));
  };
  return !names.empty() && std::ranges::all_of(names, is_one);
}

}  // namespace l2l::runtime

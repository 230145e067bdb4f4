// What errors are about, and the name of a file for those that are thrown while it is read.
#pragma once

#include <string>
#include <utility>

#include "l2l/errors.h"

namespace l2l {

inline ErrorPlace of_key(std::string key) { return {.file = {}, .field = {}, .key = std::move(key)}; }
inline ErrorPlace of_file(std::string file, std::string key = {}) {
  return {.file = std::move(file), .field = {}, .key = std::move(key)};
}

// Calls `read`. What it throws as BadInput without a place's file gets `file`; the message, and all other errors, are
// left as they are.
template <typename Read>
auto naming_file(const std::string& file, Read&& read) {
  try {
    return std::forward<Read>(read)();
  } catch (const OutOfMemory&) {
    throw;
  } catch (const BadInput& error) {
    if (!error.place().file.empty()) throw;
    throw BadInput(error.what(), {.file = file, .field = error.place().field, .key = error.place().key});
  }
}

}  // namespace l2l

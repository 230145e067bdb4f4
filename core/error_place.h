// Adds the name of a file to errors that are thrown while it is read.
#pragma once

#include <string>
#include <utility>

#include "l2l/errors.h"

namespace l2l {

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

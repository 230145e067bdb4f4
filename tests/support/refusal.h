// What a call that must be refused says.
#pragma once

#include <string>

#include "l2l/errors.h"

namespace l2l::testing {

// The message of the Error that `call` throws; "(none)" where it throws none.
template <typename Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "(none)";
}

// What the BadInput that `call` throws is about; the file "(none)" where it throws none.
template <typename Call>
ErrorPlace place_of_refusal(const Call& call) {
  try {
    call();
  } catch (const BadInput& error) {
    return error.place();
  }
  return {"(none)", {}, {}};
}

}  // namespace l2l::testing

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

}  // namespace l2l::testing

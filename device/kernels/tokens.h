// Checks tokens, which come from files: one outside the vocabulary must not become an address.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "l2l/errors.h"

namespace l2l::device::kernels {

[[noreturn]] inline void throw_bad_token(std::string_view op, std::int64_t token, std::int64_t row,
                                         std::int64_t vocabulary) {
  throw BadInput(std::string(op) + ": token " + std::to_string(token) + " in row " + std::to_string(row) +
                 " of the microbatch is outside the vocabulary of " + std::to_string(vocabulary) +
                 ": use the tokenizer that the model was made with");
}

inline std::int64_t checked_token(std::string_view op, std::int64_t token, std::int64_t row, std::int64_t vocabulary) {
  if (token < 0 || token >= vocabulary) throw_bad_token(op, token, row, vocabulary);
  return token;
}

}  // namespace l2l::device::kernels

// Checks tokens and positions, which come from files: one outside its table must not become an address.
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

// The row of a table of `positions` rows that belongs to `row`, counted over all devices: places[row], or without
// places its place in its sequence.
inline std::int64_t place_of(std::string_view op, const std::int32_t* places, std::int64_t row, std::int64_t sequence,
                             std::int64_t positions) {
  if (places == nullptr) return row % sequence;
  if (places[row] < 0 || places[row] >= positions) {
    throw BadInput(std::string(op) + ": position " + std::to_string(places[row]) + " in row " + std::to_string(row) +
                   " of the microbatch is outside the table of " + std::to_string(positions));
  }
  return places[row];
}

}  // namespace l2l::device::kernels

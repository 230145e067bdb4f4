// Arithmetic on numbers from outside: overflow is an error, never a wrapped value.
#pragma once

#include <cstdint>
#include <string_view>

#include "l2l/errors.h"

namespace l2l {

// `what` names the quantity in the message. Throws BadInput on overflow.
inline std::uint64_t checked_multiply(std::uint64_t a, std::uint64_t b, std::string_view what) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw BadInput(std::string(what) + ": " + std::to_string(a) + " x " + std::to_string(b) +
                   " does not fit in 64 bits");
  }
  return product;
}

inline std::uint64_t checked_add(std::uint64_t a, std::uint64_t b, std::string_view what) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    throw BadInput(std::string(what) + ": " + std::to_string(a) + " + " + std::to_string(b) +
                   " does not fit in 64 bits");
  }
  return sum;
}

}  // namespace l2l

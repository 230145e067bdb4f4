#include "compiler/ir/sizes.h"

#include <string>

#include "l2l/errors.h"

namespace l2l::compiler {

void Sizes::set(char letter, std::int64_t size) {
  const std::string name(1, letter);
  if (size < 1) throw BadInput(name + " = " + std::to_string(size) + ", must be at least 1");
  const std::int64_t known = (*this)[letter];
  if (known == size) return;
  if (known != 0) {
    throw BadInput(name + " = " + std::to_string(known) + " of one operand is " + std::to_string(size) + " of another");
  }
  sizes_[index(letter)] = size;
}

}  // namespace l2l::compiler

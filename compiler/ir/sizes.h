// The dimensions of one op by letter; a letter is the same size wherever it stands in the op's signature.
#pragma once

#include <array>
#include <cstdint>

namespace l2l::compiler {

// Thread-bound. Letters are 'A' to 'Z'; '1' stands for size 1.
class Sizes {
 public:
  // 0 while unknown.
  std::int64_t operator[](char letter) const { return letter == '1' ? 1 : sizes_[index(letter)]; }
  // Throws BadInput when `size` is not positive, or differs from a known size.
  void set(char letter, std::int64_t size);

 private:
  static std::size_t index(char letter) { return static_cast<std::size_t>(letter - 'A'); }

  std::array<std::int64_t, 26> sizes_{};
};

}  // namespace l2l::compiler

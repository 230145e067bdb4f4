// The signature of each op kind (ops.def), and the conditions on its attributes.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace l2l::compiler {

// The dimensions of one op by letter; a letter is the same size wherever it stands in the op's signature. Thread-bound.
// Letters are 'A' to 'Z'; '1' stands for size 1.
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

enum class SlotType : std::uint8_t {
  compute,  // f32, bf16 or f16, the same for all of the op
  f32,
  f64,
  i32,
  stream,             // f32 or i32, the same for all of the op
  stream_or_compute,  // the same for all of the op
  any,                // likewise
};

// One operand of an op kind.
struct Slot {
  std::string_view name;
  std::string_view dims;  // a letter per dimension (Sizes); "*": any shape, of E elements
  SlotType type = SlotType::compute;
  bool accumulates = false;  // an output that is added to (+=)
  bool optional = false;     // the last input or output, which may be left out
};

struct OpRule {
  OpKind kind;
  std::vector<Slot> inputs;
  std::vector<Slot> outputs;
  // Checks the attributes and derives sizes of outputs from those of inputs. Throws BadInput. May be null.
  void (*derive)(const Attributes& attributes, Sizes& sizes) = nullptr;
};

const OpRule& rule_of(OpKind kind);

inline constexpr std::int64_t kMostTreeRows = 64;  // of tree_sum

// Whether `op` adds to its output `position` instead of overwriting it.
bool accumulates(const Op& op, std::size_t position);

}  // namespace l2l::compiler

// The signature of each op kind (ops.def), and the conditions on its attributes.
#pragma once

#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/sizes.h"

namespace l2l::compiler {

enum class SlotType : std::uint8_t {
  compute,  // f32, bf16 or f16, the same for all of the op
  f32,
  f64,
  i32,
  stream,             // f32 or i32, the same for all of the op
  stream_or_compute,  // the same for all of the op
};

// One operand of an op kind.
struct Slot {
  std::string_view name;
  std::string_view dims;  // a letter per dimension (sizes.h)
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

// Whether `op` adds to its output `position` instead of overwriting it.
bool accumulates(const Op& op, std::size_t position);

}  // namespace l2l::compiler

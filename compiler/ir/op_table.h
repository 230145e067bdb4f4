// One table of what each op kind (ops.def) takes and gives: its signature, and conditions on its attributes.
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
  bool accumulates = false;  // an output that is changed in place (+=)
  bool optional = false;     // may be left out, the last input and with it the last output
};

struct OpRule {
  OpKind kind;
  std::vector<Slot> inputs;
  std::vector<Slot> outputs;
  // Checks the attributes and derives the sizes of outputs from those of inputs. Throws BadInput. nullptr: nothing to
  // do.
  void (*derive)(const Attributes& attributes, Sizes& sizes) = nullptr;
};

const OpRule& rule_of(OpKind kind);

// Whether output `position` of `op` is added to.
bool accumulates(const Op& op, std::size_t position);

}  // namespace l2l::compiler

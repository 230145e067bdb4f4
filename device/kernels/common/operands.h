// What kernels read of their op: values by position, operands by type, and arrays cut from the workspace.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "core/bytes.h"
#include "l2l/errors.h"

namespace l2l::device {
struct TensorMember;
}

namespace l2l::device::kernels {

// An op and the values that its graph has for its operands.
struct OpView {
  const compiler::Graph& graph;
  const compiler::Op& op;
  const TensorMember* tensor = nullptr;  // of the device, where layers may be split over several
  compiler::OpKind kind = op.kind;
  const compiler::Attributes& attributes = op.attributes;
  const std::vector<compiler::ValueId>&inputs = op.inputs, &outputs = op.outputs;

  const compiler::Value& input(std::size_t position) const { return graph.value(inputs.at(position)); }
  const compiler::Value& output(std::size_t position) const { return graph.value(outputs.at(position)); }
  // Of the inputs, then the outputs.
  const compiler::Value& operand(std::size_t position) const {
    return position < inputs.size() ? input(position) : output(position - inputs.size());
  }
  // Throws BadInput unless every operand at `positions` has `dtype`.
  void require_dtype(DType dtype, std::initializer_list<std::size_t> positions) const;
};

// Throws BadInput unless a device that is `tensor` of its group has the op's share of a split layer: of all devices or,
// of what is exchanged, of as many neighbours.
void require_share(const compiler::Op& op, const TensorMember& tensor);

// Addresses: inputs, then outputs.
using Operands = std::span<std::byte* const>;

template <typename T>
T* as(std::byte* operand) {
  return reinterpret_cast<T*>(operand);
}

// Points the first pointer to the first operand, and so on.
template <typename... Pointers>
void point_to(Operands operands, Pointers&... pointers) {
  std::size_t next = 0;
  ((pointers = reinterpret_cast<Pointers>(operands[next++])), ...);
}

// Cuts a workspace into 64-byte aligned arrays. With a null base it only counts bytes, so one function sizes and cuts.
class WorkspaceCutter {
 public:
  explicit WorkspaceCutter(std::byte* base = nullptr) : base_(base) {}

  template <typename T>
  T* take(std::int64_t count) {
    T* array = base_ ? reinterpret_cast<T*>(base_ + used_) : nullptr;
    used_ += align_up(static_cast<Bytes>(count) * sizeof(T), 64);
    return array;
  }
  Bytes used() const { return used_; }

 private:
  std::byte* base_;
  Bytes used_ = 0;
};

}  // namespace l2l::device::kernels

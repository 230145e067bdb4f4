// What kernels read of their op: values by position, operands by type, and arrays cut from the workspace.
#pragma once

#include <initializer_list>
#include <span>
#include <string>

#include "compiler/ir/graph.h"
#include "core/bytes.h"
#include "l2l/errors.h"

namespace l2l::device::kernels {

inline const compiler::Value& input(const compiler::Graph& graph, const compiler::Op& op, std::size_t position) {
  return graph.value(op.inputs.at(position));
}

inline const compiler::Value& output(const compiler::Graph& graph, const compiler::Op& op, std::size_t position) {
  return graph.value(op.outputs.at(position));
}

template <typename T>
T* as(std::byte* operand) {
  return reinterpret_cast<T*>(operand);
}

// Throws BadInput unless every value at `positions` (inputs, then outputs) has `dtype`.
void require_dtype(const compiler::Graph& graph, const compiler::Op& op, DType dtype,
                   std::initializer_list<std::size_t> positions);

// `value` rounded to a compute type, and back in fp32.
float rounded_to(DType dtype, float value);

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

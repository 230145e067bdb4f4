// Runs one case of the table on a kernel and on its reference. Whose kernel is a matter of linking: host_runner.cpp or
// cuda_runner.cpp.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/workers.h"
#include "tests/conformance/ops/op_table.h"
#include "tests/conformance/ops/reference.h"

namespace l2l::test {

// Inputs (normal numbers, tokens, targets; what a backward op reads of its forward op comes from the reference) and
// accumulators, rounded to their dtypes; other outputs are NaN until written.
Tensors make_operands(const OpCase& test_case);

// The operands as bytes of their dtypes, 16-byte but not 64-byte aligned, each with a guard behind it.
class Memory {
 public:
  Memory(const OpCase& test_case, const Tensors& operands);

  std::vector<std::byte*> pointers();
  // Each operand with the guard behind it.
  std::vector<std::span<std::byte>> with_guards();
  Tensors read() const;
  // All outputs, for comparison of bits.
  std::vector<std::byte> output_bytes() const;
  // Throws Error naming the operand behind which somebody wrote.
  void check_guards() const;

 private:
  struct Block {
    std::vector<std::byte> storage;
    std::size_t offset, bytes;
    DType dtype;
    bool is_output;
  };
  std::vector<Block> blocks_;
};

// Whether this backend's kernels for `kind`, a kind of attention, round what they compute in `dtype` on the way to
// their results for products: probabilities, gradients of scores (tensor cores, tile registers).
bool rounds_attention_weights(compiler::OpKind kind, DType dtype);

// Whether that concerns the case. Then rows count for themselves: an element's error is held against the typical size
// of its own row, too, since the first keys of causal attention have far larger gradients than the others.
bool has_rounded_weights(const OpCase& test_case);

// Ways to run a kernel that must give the same bits: numbers of workers on the host, orders of threads where CUDA is
// emulated, repetitions on a GPU.
std::vector<int> variants();

// Runs the kernel on `memory`, with exactly the workspace it asks for. Throws Error when something is written behind an
// operand or the workspace.
void run_kernel(const OpCase& test_case, Memory& memory, int variant);

// On the host; not there in programs that test another backend.
void run_kernel(const OpCase& test_case, Memory& memory, Workers& workers);

// "" or what differs: relative L2 of each output, and each element against the size of the typical one.
std::string compare(const OpCase& test_case, const Tensors& expected, const Tensors& actual);

}  // namespace l2l::test

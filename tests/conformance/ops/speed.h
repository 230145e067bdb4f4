#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/conformance/ops/op_table.h"

namespace l2l::test {

// Prints for each speed case whose name contains `filter` the median and best time on `threads` workers, and GB/s (each
// operand once) and GFLOP/s (matrix products) at the best: on a shared machine the best is the kernel, the rest noise.
int run_speed(int threads, const char* filter);

// Multiplications and additions of matrix products; other ops are judged by bytes.
double operations(const OpCase& test_case);
// Small numbers, and tokens below the smallest vocabulary.
void fill(std::byte* memory, const compiler::Value& value);

struct CudaSpeed {
  double seconds = 0;                   // of one run, the median of batches
  double terabytes = 0, teraflops = 0;  // per second
  Bytes workspace = 0;
};

// Runs the kernel of `test_case` in batches that take `batch_seconds` each, on the same operands: small ones stay in
// caches. Waits.
CudaSpeed measure_cuda(const OpCase& test_case, double batch_seconds);

// Shapes of a training step on a GPU: BERT-Large and a Llama of 7 billion parameters.
std::vector<OpCase> cuda_speed_cases();

// Prints each case that has a kernel and whose name contains one of `filters`, or every case without any: time, TB/s
// (operands once), workspace, and TFLOP/s, these also as a share of what a product of [size, size] matrices of the same
// type reaches in this run. Returns how many.
int run_cuda_speed(const std::vector<OpCase>& cases, std::span<const char* const> filters, std::int64_t size,
                   double batch_seconds);

}  // namespace l2l::test

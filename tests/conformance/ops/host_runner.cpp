#include "device/kernels/kernel.h"
#include "device/kernels/tile_product.h"
#include "l2l/errors.h"
#include "tests/conformance/ops/guard.h"
#include "tests/conformance/ops/harness.h"

namespace l2l::test {

bool rounds_attention_weights(compiler::OpKind kind, DType dtype) {
  const bool fused = kind == compiler::OpKind::attention || kind == compiler::OpKind::attention_backward;
  return fused && dtype == DType::bf16 && device::kernels::has_tiles();
}

std::vector<int> variants() { return {1, 2, 3, 4}; }

void run_kernel(const OpCase& test_case, Memory& memory, int variant) {
  Workers workers("ops", variant);
  run_kernel(test_case, memory, workers);
}

void run_kernel(const OpCase& test_case, Memory& memory, Workers& workers) {
  const auto kernel = device::kernels::make_kernel(test_case.graph, 0);
  const std::size_t bytes = kernel->workspace(workers.threads());
  std::vector<std::byte> storage(bytes + 64 + kGuardBytes, kGuard);
  std::byte* const workspace = storage.data() + (64 - reinterpret_cast<std::uintptr_t>(storage.data()) % 64) % 64;
  const auto pointers = memory.pointers();
  kernel->run(pointers, workspace, test_case.parameters, workers);
  memory.check_guards();
  if (!intact(workspace + bytes)) throw Error("the workspace was written behind its end");
}

}  // namespace l2l::test

// Which kernels core attention runs where CUDA is emulated: the names are what tells those on tensor cores in 16 bits.
#include <algorithm>
#include <string>

#include "tests/conformance/ops/cuda_settings.h"
#include "tests/emulation/runtime.h"

namespace l2l::test {
namespace {

OpCase capped(OpCase original) {
  return varied(std::move(original), "cap", [](compiler::Attributes& attributes) { attributes.softcap = 2; });
}

std::vector<OpCase> core_attention_ops(DType dtype, const AttentionCase& shape) {
  return {attention_probabilities_case(dtype, shape), attention_probabilities_backward_case(dtype, shape),
          attention_mix_case(dtype, shape), attention_mix_backward_case(dtype, shape)};
}

// How many of the kernels that run for the case are on tensor cores, and how many do the same without.
struct Kernels {
  std::int64_t tensor = 0, plain = 0;
};

Kernels kernels_of(const OpCase& test_case) {
  Memory memory(test_case, make_operands(test_case));
  emulation::unload_kernels();
  run_kernel(test_case, memory, variants().front());
  Kernels kernels;
  for (const std::string& name : emulation::names_of_loaded_kernels()) {
    if (name.find("attention_") == std::string::npos) continue;  // softmax_products, of either
    ++(name.find("tensor::attention_") != std::string::npos ? kernels.tensor : kernels.plain);
  }
  return kernels;
}

class CoreAttentionKernels : public CudaSettings {
 protected:
  void expect(const OpCase& test_case, bool tensor) {
    const bool backward = test_case.op().inputs.size() > 2;
    const Kernels found = kernels_of(test_case);
    EXPECT_EQ(found.tensor, tensor ? (backward ? 2 : 1) : 0) << test_case.name;
    EXPECT_EQ(found.plain, tensor ? 0 : (backward ? 2 : 1)) << test_case.name;
  }
};

TEST_F(CoreAttentionKernels, AreOnTensorCoresWhereHeadsFit) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    cuda_context().tf32 = true;
    for (const std::int64_t head_dim : {8, 32, 64, 96, 128}) {
      for (const OpCase& test_case : core_attention_ops(dtype, {1, 37, 4, head_dim, 0, 2})) expect(test_case, true);
    }
    for (const std::int64_t head_dim : {6, 136}) {
      for (const OpCase& test_case : core_attention_ops(dtype, {1, 37, 2, head_dim})) expect(test_case, false);
    }
    for (const OpCase& test_case : core_attention_ops(dtype, {1, 37, 2, 64})) expect(capped(test_case), false);
    cuda_context().tf32 = false;
    for (const OpCase& test_case : core_attention_ops(dtype, {1, 37, 2, 64})) expect(test_case, dtype != DType::f32);
  }
}

}  // namespace
}  // namespace l2l::test

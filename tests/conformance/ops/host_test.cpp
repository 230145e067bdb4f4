// What is said of the host's kernels alone.
#include <gtest/gtest.h>

#include "core/fault_point.h"
#include "core/workers.h"
#include "l2l/errors.h"
#include "tests/conformance/ops/harness.h"

namespace l2l::test {
namespace {

#ifdef L2L_FAULT_POINTS
TEST(Workers, AnOrderThatDependsOnThemIsNoticed) {
  const OpCase test_case = bias_gradient_case(DType::f32, 200, 160);
  const Tensors operands = make_operands(test_case);
  std::vector<std::byte> bytes[2];
  arm_fault_point("kernels.order_by_workers");
  for (const int threads : {1, 2}) {
    Memory memory(test_case, operands);
    Workers workers("ops", threads);
    run_kernel(test_case, memory, workers);
    bytes[threads - 1] = memory.output_bytes();
  }
  arm_fault_point("");
  EXPECT_FALSE(bytes[0] == bytes[1]);
}
#endif

TEST(Kernels, RefuseTokensOutsideTheVocabulary) {
  Workers workers("ops", 2);
  const OpCase readers_of_tokens[] = {
      embedding_case(DType::f32, 4, 4, 8, 5),         embedding_backward_case(DType::f32, 4, 4, 8, 5),
      linear_cross_entropy_case(DType::f32, 4, 8, 5), linear_cross_entropy_backward_case(DType::f32, 4, 8, 5),
      embedding_rows_case(DType::f32, 4, 8, 5),       softmax_statistics_case(DType::f32, 4, 8, 5)};
  for (const OpCase& test_case : readers_of_tokens) {
    Tensors operands = make_operands(test_case);
    const bool embedding = test_case.graph.values[0].dtype == DType::i32;
    const bool chunk = test_case.parameters.first_token > 0;
    operands[embedding ? 0 : 2][1] = chunk ? kFirstToken + 5 + kTokensBehind : 5;
    Memory memory(test_case, operands);
    EXPECT_THROW(run_kernel(test_case, memory, workers), BadInput) << test_case.name;
  }
}

TEST(Kernels, RefuseDtypesTheyDoNotHave) {
  Workers workers("ops", 1);
  OpCase test_case = pointwise_case(device::graph::OpKind::add, DType::f32, 3, 3);
  test_case.graph.values[1].dtype = DType::bf16;
  Memory memory(test_case, make_operands(test_case));
  EXPECT_THROW(run_kernel(test_case, memory, workers), BadInput);
}

}  // namespace
}  // namespace l2l::test

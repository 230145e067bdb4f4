// Attention of fp32 with TF32: on tensor cores where it fits them, as exact as ten bits of mantissa allow; elsewhere,
// and without TF32, as ever.
#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>

#include "core/dtype.h"
#include "device/kernels/common/dropout.h"
#include "tests/conformance/ops/cuda_settings.h"

namespace l2l::test {
namespace {

using compiler::OpKind;

// Which input of an op of attention is qkv; none of other ops.
std::optional<std::size_t> qkv_input(OpKind kind) {
  switch (kind) {
    case OpKind::attention:
    case OpKind::attention_probabilities:
      return 0;
    case OpKind::attention_backward:
    case OpKind::attention_mix:
      return 1;
    case OpKind::attention_probabilities_backward:
    case OpKind::attention_mix_backward:
      return 2;
    default:
      return std::nullopt;
  }
}

// The table's, and heads that no tile fits; those of 6 elements begin on other addresses than copies take.
const std::vector<OpCase>& attention_cases() {
  static const std::vector<OpCase> all = [] {
    std::vector<OpCase> cases = conformance_cases();
    for (const AttentionCase& shape :
         {AttentionCase{1, 50, 2, 6}, {2, 37, 3, 4, 0, 0, false}, {1, 70, 2, 60, 0.1f}, {1, 150, 2, 100, 0.1f, 1}}) {
      cases.push_back(attention_case(DType::f32, shape));
      cases.push_back(attention_backward_case(DType::f32, shape));
    }
    for (const AttentionCase& shape :
         {AttentionCase{1, 50, 2, 6}, {2, 37, 3, 4, 0, 0, false}, {1, 150, 2, 100, 0, 1}}) {
      cases.push_back(attention_probabilities_case(DType::f32, shape));
      cases.push_back(attention_probabilities_backward_case(DType::f32, shape));
      cases.push_back(attention_mix_case(DType::f32, shape));
      cases.push_back(attention_mix_backward_case(DType::f32, shape));
    }
    std::erase_if(cases, [](const OpCase& test_case) {
      // A logsumexp of one score may be near 0, its error is not.
      const bool one = test_case.graph.value(test_case.op().outputs.back()).shape.elements() == 1;
      return !qkv_input(test_case.op().kind) || one || test_case.graph.values[0].dtype != DType::f32;
    });
    return cases;
  }();
  return all;
}

// As docs/devices.md has it.
bool fits_tensor_cores(const OpCase& test_case) {
  const auto& attributes = test_case.op().attributes;
  const std::size_t qkv = *qkv_input(test_case.op().kind);
  const std::int64_t width = test_case.graph.value(test_case.op().inputs[qkv]).shape[1];
  const std::int64_t head_dim = width / (attributes.heads + 2 * compiler::kv_heads(attributes));
  return attributes.softcap == 0 && head_dim % 4 == 0 && head_dim <= 128;
}

// Whether products leave a trace: not in softmax where each row sees itself alone, its probability being 1.
bool depends_on_products(const OpCase& test_case) {
  const auto& [kind, attributes] = std::tie(test_case.op().kind, test_case.op().attributes);
  const bool softmax = kind == OpKind::attention_probabilities || kind == OpKind::attention_probabilities_backward;
  return !softmax || (attributes.sequence > 1 && attributes.window != 1);
}

Memory run_once(const OpCase& test_case, const Tensors& operands) {
  Memory memory(test_case, operands);
  run_kernel(test_case, memory, variants().front());
  return memory;
}

Tensors reference_of(const OpCase& test_case, const Tensors& operands) {
  Tensors results = operands;
  run_reference({test_case.graph, test_case.op(), test_case.parameters, results});
  return results;
}

class Tf32Attention : public CudaSettings, public testing::WithParamInterface<std::size_t> {};

// Without TF32, results are within a hundredth of what it costs, and their bits do not know of it.
TEST_P(Tf32Attention, MatchesFloat64ReferenceOnTensorCores) {
  const OpCase& test_case = attention_cases()[GetParam()];
  const Tensors operands = make_operands(test_case);
  run_checked(test_case);
  const std::vector<std::byte> plain = run_once(test_case, operands).output_bytes();
  cuda_context().tf32 = true;
  run_checked(test_case);
  EXPECT_EQ(plain != run_once(test_case, operands).output_bytes(),
            fits_tensor_cores(test_case) && depends_on_products(test_case));
  cuda_context().tf32 = false;
  EXPECT_TRUE(plain == run_once(test_case, operands).output_bytes());
}

INSTANTIATE_TEST_SUITE_P(Table, Tf32Attention, testing::Range<std::size_t>(0, attention_cases().size()),
                         [](const auto& info) { return attention_cases()[info.param].name; });

class Tf32 : public CudaSettings {
 protected:
  Tf32() { cuda_context().tf32 = true; }
};

// One of each head size that has kernels of its own.
const std::vector<OpCase>& seeded_cases() {
  static const std::vector<OpCase> all = [] {
    std::vector<OpCase> cases;
    const auto window = [](compiler::Attributes& attributes) { attributes.window = 9; };
    for (const std::int64_t head_dim : {20, 64, 96, 128}) {
      const AttentionCase shape{1, 80, 2, head_dim, 0.25f, 1};
      cases.push_back(varied(attention_case(DType::f32, shape), "window9", window));
      cases.push_back(varied(attention_backward_case(DType::f32, shape), "window9", window));
      const AttentionCase core{1, 80, 2, head_dim, 0, 1};
      cases.push_back(varied(attention_probabilities_case(DType::f32, core), "window9", window));
      cases.push_back(
          varied(attention_probabilities_backward_case(DType::f32, core, /*other=*/false), "window9", window));
      cases.push_back(varied(attention_mix_case(DType::f32, core), "window9", window));
      cases.push_back(varied(attention_mix_backward_case(DType::f32, core), "window9", window));
    }
    return cases;
  }();
  return all;
}

// The tolerance of TF32 would not let pass: factors of seven bits, a window that is off by one, another mask.
TEST_F(Tf32, MistakesAreNoticed) {
  for (const OpCase& test_case : seeded_cases()) {
    const Tensors operands = make_operands(test_case), expected = reference_of(test_case, operands);
    ASSERT_EQ(compare(test_case, expected, run_once(test_case, operands).read()), "") << test_case.name;

    Tensors coarse = operands;
    for (std::size_t i = 0; i < 2 && i < test_case.op().inputs.size(); ++i) {
      for (double& value : coarse[i]) value = static_cast<double>(to_float(to_bf16(static_cast<float>(value))));
    }
    EXPECT_NE(compare(test_case, expected, run_once(test_case, coarse).read()), "") << test_case.name;

    const OpCase window = varied(test_case, "", [](compiler::Attributes& attributes) { --attributes.window; });
    EXPECT_NE(compare(test_case, expected, run_once(window, operands).read()), "") << test_case.name;

    if (test_case.op().attributes.probability == 0) continue;
    OpCase other_mask = test_case;
    ++other_mask.parameters.step;
    EXPECT_NE(compare(test_case, expected, run_once(other_mask, operands).read()), "") << test_case.name;
  }
}

// Bidirectional attention of one sequence whose rows are as many as a head has elements, so that matrices of q, k and v
// can be the identity.
AttentionCase square_shape(std::int64_t size, float probability) { return {1, size, 2, size, probability, 0, false}; }

// Makes the identity of `part` (0: q, 1: k, 2: v) of each head; of [rows][heads] with one part, that of dy.
void make_identity(Tensor& tensor, std::int64_t size, std::int64_t parts, std::int64_t part) {
  for (std::int64_t i = 0; i < size; ++i) {
    for (std::int64_t column = 2 * size * part; column < 2 * size * (part + 1); ++column) {
      tensor[static_cast<std::size_t>(i * 2 * size * parts + column)] = column % size == i ? 1 : 0;
    }
  }
}

// Fails unless element (i, j) of head h, given by value(h, i, j), is 0 exactly where the host drops it.
void expect_host_mask(const OpCase& test_case, std::int64_t size,
                      const std::function<double(std::int64_t, std::int64_t, std::int64_t)>& value) {
  const auto& attributes = test_case.op().attributes;
  const device::kernels::DropoutMask mask(test_case.parameters, attributes.rng_op, attributes.probability);
  std::int64_t dropped = 0, wrong = 0;
  for (std::int64_t head = 0; head < 2; ++head) {
    for (std::int64_t i = 0; i < size; ++i) {
      for (std::int64_t j = 0; j < size; ++j) {
        const std::int64_t element = (head * size + i) * size + j;
        const bool kept = mask.keeps(mask.block_of(element), element);
        dropped += kept ? 0 : 1;
        wrong += (value(head, i, j) != 0) != kept ? 1 : 0;
      }
    }
  }
  EXPECT_GT(dropped, 0) << test_case.name;
  EXPECT_EQ(wrong, 0) << test_case.name << ", of " << dropped << " that are dropped";
}

// Heads of 2 in a matrix of `parts` such.
double of_head(const Tensor& tensor, std::int64_t size, std::int64_t parts, std::int64_t part, std::int64_t head,
               std::int64_t row, std::int64_t column) {
  return tensor[static_cast<std::size_t>(row * 2 * size * parts + (2 * part + head) * size + column)];
}

// What each of the three kernels drops shows in a product with the identity.
TEST_F(Tf32, DropsWhatTheHostDrops) {
  for (const std::int64_t size : {20, 32, 64, 96, 128}) {
    for (const float probability : {0.25f, 0.01f}) {  // bytes decide, and words
      const AttentionCase shape = square_shape(size, probability);
      const OpCase forward = attention_case(DType::f32, shape), backward = attention_backward_case(DType::f32, shape);
      Tensors operands = make_operands(forward);
      make_identity(operands[0], size, 3, 2);
      const Tensor y = run_once(forward, operands).read()[1];
      expect_host_mask(forward, size, [&](auto h, auto i, auto j) { return of_head(y, size, 1, 0, h, i, j); });

      operands = make_operands(backward);
      std::ranges::fill(operands[2], 0.0);  // y: gradients of scores become multiples of the mask
      make_identity(operands[1], size, 3, 1);
      const Tensor dq = run_once(backward, operands).read()[4];
      expect_host_mask(backward, size, [&](auto h, auto i, auto j) { return of_head(dq, size, 3, 0, h, i, j); });

      make_identity(operands[0], size, 1, 0);
      const Tensor dv = run_once(backward, operands).read()[4];
      expect_host_mask(backward, size, [&](auto h, auto i, auto j) { return of_head(dv, size, 3, 2, h, j, i); });
    }
  }
}

TEST_F(Tf32, LeavesSixteenBitAttentionAlone) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const OpCase& test_case :
         {attention_case(dtype, {1, 100, 2, 64, 0.1f}), attention_backward_case(dtype, {1, 100, 2, 64, 0.1f})}) {
      const Tensors operands = make_operands(test_case);
      cuda_context().tf32 = true;
      const std::vector<std::byte> with = run_once(test_case, operands).output_bytes();
      cuda_context().tf32 = false;
      EXPECT_TRUE(with == run_once(test_case, operands).output_bytes()) << test_case.name;
    }
  }
}

}  // namespace
}  // namespace l2l::test

// The backward references are the derivatives of the forward references: central differences in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/conformance/ops/gradient_check.h"

namespace l2l::test {
namespace {

using compiler::OpKind;

TEST(Gradient, Gelu) {
  for (const bool exact : {false, true}) {
    const OpCase forward = pointwise_case(OpKind::gelu, DType::f32, 7, 8, exact);
    const OpCase backward = pointwise_case(OpKind::gelu_backward, DType::f32, 7, 8, exact);
    const OpCase other = pointwise_case(OpKind::gelu_backward, DType::f32, 7, 8, !exact);
    const Tensors x = make_operands(forward);
    Tensors gradient = {weights_for(forward), x[0], zeros_like(x[0])};
    run_exactly(backward, gradient);
    EXPECT_LE(gradient_error(forward, x, gradient[0], 0, gradient[2]), kTolerance);
    run_exactly(other, gradient);  // a wrong derivative is noticed
    EXPECT_GT(gradient_error(forward, x, gradient[0], 0, gradient[2]), kTolerance);
  }
}

// Of functions whose gradient reads their result, not their argument.
TEST(Gradient, TanhSigmoidAndRelu) {
  const std::pair<OpKind, OpKind> kinds[] = {{OpKind::tanh, OpKind::tanh_backward},
                                             {OpKind::sigmoid, OpKind::sigmoid_backward},
                                             {OpKind::relu, OpKind::relu_backward}};
  for (const auto& [kind, of_gradient] : kinds) {
    SCOPED_TRACE(compiler::name_of(kind));
    const OpCase forward = pointwise_case(kind, DType::f32, 7, 8);
    const OpCase backward = pointwise_case(of_gradient, DType::f32, 7, 8);
    Tensors operands = make_operands(forward);
    const Tensors x = operands;
    run_exactly(forward, operands);
    Tensors gradient = {weights_for(forward), operands[1], zeros_like(x[0])};
    run_exactly(backward, gradient);
    EXPECT_LE(gradient_error(forward, x, gradient[0], 0, gradient[2]), kTolerance);
    if (kind == OpKind::relu) gradient[0] = zeros_like(x[0]);  // the sign of both is the same
    gradient[1] = x[0];
    const Tensor weights = weights_for(forward);
    run_exactly(backward, gradient);
    EXPECT_GT(gradient_error(forward, x, weights, 0, gradient[2]), kTolerance);
  }
}

TEST(Gradient, ActivationsOfTheirArgument) {
  const std::pair<OpKind, OpKind> kinds[] = {{OpKind::silu, OpKind::silu_backward},
                                             {OpKind::hard_sigmoid, OpKind::hard_sigmoid_backward},
                                             {OpKind::hard_swish, OpKind::hard_swish_backward}};
  for (const auto& [kind, backward_kind] : kinds) {
    const OpCase forward = pointwise_case(kind, DType::f32, 7, 8);
    const OpCase backward = pointwise_case(backward_kind, DType::f32, 7, 8);
    const Tensors x = make_operands(forward);
    Tensors gradient = {weights_for(forward), x[0], zeros_like(x[0])};
    run_exactly(backward, gradient);
    EXPECT_LE(gradient_error(forward, x, gradient[0], 0, gradient[2]), kTolerance) << forward.name;
    for (double& value : gradient[1]) value += 4;
    run_exactly(backward, gradient);
    EXPECT_GT(gradient_error(forward, x, gradient[0], 0, gradient[2]), kTolerance) << forward.name;
  }
}

// Each factor's is the other, times dy.
TEST(Gradient, Multiply) {
  const OpCase product = pointwise_case(OpKind::multiply, DType::f32, 7, 8);
  const Tensors operands = make_operands(product);
  for (const std::size_t factor : {0, 1}) {
    Tensors gradient = {weights_for(product), operands[1 - factor], zeros_like(operands[0])};
    run_exactly(product, gradient);
    EXPECT_LE(gradient_error(product, operands, gradient[0], factor, gradient[2]), kTolerance);
    EXPECT_GT(gradient_error(product, operands, gradient[0], 1 - factor, gradient[2]), kTolerance);
  }
}

TEST(Gradient, AddColumns) {
  const OpCase forward = columns_case(OpKind::add_columns, DType::f32, 7, 24, 8, 5);
  const OpCase backward = columns_case(OpKind::columns, DType::f32, 7, 24, 8, 5);
  const OpCase other = columns_case(OpKind::columns, DType::f32, 7, 24, 9, 5);
  const Tensors operands = make_operands(forward);
  Tensors gradient = {weights_for(forward), zeros_like(operands[1])};
  run_exactly(backward, gradient);
  EXPECT_LE(gradient_error(forward, operands, gradient[0], 1, gradient[1]), kTolerance);
  EXPECT_LE(gradient_error(forward, operands, gradient[0], 0, gradient[0]), kTolerance);
  run_exactly(other, gradient);  // columns beside its own are noticed
  EXPECT_GT(gradient_error(forward, operands, gradient[0], 1, gradient[1]), kTolerance);
}

TEST(Gradient, Swiglu) {
  using Vary = std::function<void(compiler::Attributes&)>;
  const Vary gates[] = {[](auto&) {}, [](auto& a) { a.gelu = true; }, [](auto& a) { a.gelu = a.exact = true; }};
  for (std::size_t gate = 0; gate < 3; ++gate) {
    const OpCase forward = varied(swiglu_case(DType::f32, 7, 8), "", gates[gate]);
    const OpCase backward = varied(swiglu_backward_case(DType::f32, 7, 8), "", gates[gate]);
    const OpCase other = varied(swiglu_backward_case(DType::f32, 7, 8), "", gates[(gate + 1) % 3]);
    const Tensors x = make_operands(forward);
    Tensors gradient = {weights_for(forward), x[0], zeros_like(x[0])};
    run_exactly(backward, gradient);
    EXPECT_LE(gradient_error(forward, x, gradient[0], 0, gradient[2]), kTolerance) << gate;
    run_exactly(other, gradient);  // another gate's derivative is noticed
    EXPECT_GT(gradient_error(forward, x, gradient[0], 0, gradient[2]), kTolerance) << gate;
  }
}

TEST(Gradient, HeadNorm) {
  for (const bool unit : {false, true}) {
    const auto vary = [&](compiler::Attributes& a) { a.unit_offset = unit; };
    const AttentionCase shape{2, 5, 4, 6, 0, 2};
    const OpCase forward = varied(head_norm_case(DType::f32, shape), "", vary);
    const OpCase backward = varied(head_norm_backward_case(DType::f32, shape), "", vary);
    Tensors values = make_operands(forward);
    run_exactly(forward, values);
    Tensors gradient = {
        weights_for(forward), values[0], values[1], values[2], values[4], zeros_like(values[0]), zeros_like(values[1]),
        zeros_like(values[2])};
    run_exactly(backward, gradient);
    for (std::size_t input = 0; input < 3; ++input) {
      EXPECT_LE(gradient_error(forward, values, gradient[0], input, gradient[5 + input]), kTolerance) << input;
    }
  }
}

TEST(Gradient, RmsNormOfOnePlusWeight) {
  const auto unit = [](compiler::Attributes& a) { a.unit_offset = true; };
  const OpCase forward = varied(rms_norm_case(DType::f32, 5, 24), "", unit);
  Tensors values = make_operands(forward);
  run_exactly(forward, values);
  for (const bool forgotten : {false, true}) {
    OpCase backward = rms_norm_backward_case(DType::f32, 5, 24);
    if (!forgotten) backward = varied(backward, "", unit);
    Tensors gradient = {weights_for(forward), values[0], values[1], values[3], zeros_like(values[0]),
                        zeros_like(values[1])};
    run_exactly(backward, gradient);
    EXPECT_EQ(gradient_error(forward, values, gradient[0], 0, gradient[4]) <= kTolerance, !forgotten);
  }
}

TEST(Gradient, RmsNorm) {
  const OpCase forward = rms_norm_case(DType::f32, 5, 24), backward = rms_norm_backward_case(DType::f32, 5, 24);
  Tensors values = make_operands(forward);
  run_exactly(forward, values);
  Tensors gradient = {weights_for(forward), values[0], values[1], values[3], zeros_like(values[0]),
                      zeros_like(values[1])};
  run_exactly(backward, gradient);
  for (std::size_t input = 0; input < 2; ++input) {
    EXPECT_LE(gradient_error(forward, values, gradient[0], input, gradient[4 + input]), kTolerance) << input;
  }
}

TEST(Gradient, RotaryIsItsInverse) {
  const AttentionCase shape{2, 9, 4, 6, 0, 2};
  const OpCase forward = rotary_case(DType::f32, shape, 100, false),
               backward = rotary_case(DType::f32, shape, 100, true);
  const Tensors x = make_operands(forward);
  Tensors gradient = {weights_for(forward), zeros_like(x[0])};
  run_exactly(backward, gradient);
  EXPECT_LE(gradient_error(forward, x, gradient[0], 0, gradient[1]), kTolerance);
  run_exactly(forward, gradient);
  EXPECT_GT(gradient_error(forward, x, gradient[0], 0, gradient[1]), kTolerance);
}

TEST(Gradient, Dropout) {
  const OpCase forward = dropout_case(DType::f32, 7, 8, 0.3f);
  const Tensors x = make_operands(forward);
  Tensors gradient = {weights_for(forward), zeros_like(x[0])};
  run_exactly(forward, gradient);  // its own backward
  EXPECT_LE(gradient_error(forward, x, gradient[0], 0, gradient[1]), kTolerance);
}

TEST(Gradient, LayerNorm) {
  const OpCase forward = layer_norm_case(DType::f32, 5, 24);
  const OpCase backward = layer_norm_backward_case(DType::f32, 5, 24);
  Tensors values = make_operands(forward);
  run_exactly(forward, values);
  Tensors gradient = {
      weights_for(forward), values[0], values[1], values[4], values[5], zeros_like(values[0]), zeros_like(values[1]),
      zeros_like(values[2])};
  run_exactly(backward, gradient);
  for (std::size_t input = 0; input < 3; ++input) {
    EXPECT_LE(gradient_error(forward, values, gradient[0], input, gradient[5 + input]), kTolerance) << input;
  }
}

TEST(Gradient, Embedding) {
  const OpCase forward = embedding_case(DType::f32, 15, 5, 8, 4);
  const OpCase backward = embedding_backward_case(DType::f32, 15, 5, 8, 4);
  const Tensors values = make_operands(forward);
  Tensors gradient = {values[0], weights_for(forward), zeros_like(values[1]), zeros_like(values[2])};
  run_exactly(backward, gradient);
  EXPECT_LE(gradient_error(forward, values, gradient[1], 1, gradient[2]), kTolerance);
  EXPECT_LE(gradient_error(forward, values, gradient[1], 2, gradient[3]), kTolerance);
}

// y = x w + b: dx = dy w^T, dw += x^T dy, db += sum of dy.
TEST(Gradient, Linear) {
  const OpCase forward = matmul_case(DType::f32, DType::f32, {7, 8, 24, false, false, true});
  const OpCase dx = matmul_case(DType::f32, DType::f32, {7, 24, 8, false, true});
  const OpCase dw = matmul_case(DType::f32, DType::f32, {24, 8, 7, true, false, false, true});
  const OpCase db = bias_gradient_case(DType::f32, 7, 8);
  const Tensors values = make_operands(forward);
  const Tensor dy = weights_for(forward);
  Tensors x = {dy, values[1], zeros_like(values[0])}, w = {values[0], dy, zeros_like(values[1])};
  Tensors b = {dy, zeros_like(values[2])};
  run_exactly(dx, x);
  run_exactly(dw, w);
  run_exactly(db, b);
  EXPECT_LE(gradient_error(forward, values, dy, 0, x[2]), kTolerance);
  EXPECT_LE(gradient_error(forward, values, dy, 1, w[2]), kTolerance);
  EXPECT_LE(gradient_error(forward, values, dy, 2, b[1]), kTolerance);
}

TEST(Gradient, Attention) {
  for (const AttentionCase& shape :
       {AttentionCase{2, 9, 3, 8}, AttentionCase{2, 9, 3, 8, 0.25f}, AttentionCase{2, 9, 4, 8, 0.25f, 2},
        AttentionCase{2, 9, 4, 8, 0, 1}, AttentionCase{2, 9, 3, 8, 0.25f, 0, false}}) {
    const OpCase forward = attention_case(DType::f32, shape), backward = attention_backward_case(DType::f32, shape);
    Tensors values = make_operands(forward);
    run_exactly(forward, values);
    Tensors gradient = {weights_for(forward), values[0], values[1], values[2], zeros_like(values[0])};
    run_exactly(backward, gradient);
    EXPECT_LE(gradient_error(forward, values, gradient[0], 0, gradient[4]), kTolerance) << forward.name;
  }
}

// Of documents that share sequences; a row that sees one row of another document is noticed.
TEST(Gradient, PackedAttention) {
  for (const AttentionCase& shape : {AttentionCase{2, 29, 3, 8}, AttentionCase{2, 29, 4, 8, 0.25f, 2},
                                     AttentionCase{2, 29, 3, 8, 0.25f, 0, false}}) {
    const OpCase forward = packed(attention_case(DType::f32, shape));
    const OpCase backward = packed(attention_backward_case(DType::f32, shape));
    Tensors values = make_operands(forward);
    run_exactly(forward, values);
    Tensors gradient = {weights_for(forward), values[0], values[2], values[3], values[1], zeros_like(values[0])};
    run_exactly(backward, gradient);
    EXPECT_LE(gradient_error(forward, values, gradient[0], 0, gradient[5]), kTolerance) << forward.name;
    double* const begins = gradient[4].data();
    *std::find_if(begins, begins + shape.rows(), [](double begin) { return begin > 0; }) -= 1;
    run_exactly(backward, gradient);
    EXPECT_GT(gradient_error(forward, values, gradient[0], 0, gradient[5]), kTolerance) << forward.name;
  }
}

TEST(Gradient, PackedPositions) {
  const OpCase forward = packed(embedding_case(DType::f32, 15, 5, 8, 4));
  const OpCase backward = packed(embedding_backward_case(DType::f32, 15, 5, 8, 4));
  const Tensors values = make_operands(forward);
  Tensors gradient = {values[0], weights_for(forward), values[3], zeros_like(values[1]), zeros_like(values[2])};
  run_exactly(backward, gradient);
  EXPECT_LE(gradient_error(forward, values, gradient[1], 1, gradient[3]), kTolerance);
  EXPECT_LE(gradient_error(forward, values, gradient[1], 2, gradient[4]), kTolerance);
}

TEST(Gradient, CoreAttention) {
  for (const AttentionCase& shape :
       {AttentionCase{2, 9, 3, 8}, AttentionCase{2, 9, 4, 8, 0, 2}, AttentionCase{2, 9, 3, 8, 0, 0, false}}) {
    const OpCase probabilities = attention_probabilities_case(DType::f32, shape);
    Tensors values = make_operands(probabilities);
    run_exactly(probabilities, values);
    const OpCase backward = attention_probabilities_backward_case(DType::f32, shape, /*other=*/false);
    Tensors gradient = {weights_for(probabilities), values[1], values[0], zeros_like(values[0])};
    run_exactly(backward, gradient);
    EXPECT_LE(gradient_error(probabilities, values, gradient[0], 0, gradient[3]), kTolerance) << probabilities.name;

    const OpCase mix = attention_mix_case(DType::f32, shape);
    values = make_operands(mix);
    gradient = {weights_for(mix), values[0], values[1], zeros_like(values[0]), zeros_like(values[1])};
    run_exactly(attention_mix_backward_case(DType::f32, shape), gradient);
    EXPECT_LE(gradient_error(mix, values, gradient[0], 0, gradient[3]), kTolerance) << mix.name;
    EXPECT_LE(gradient_error(mix, values, gradient[0], 1, gradient[4]), kTolerance) << mix.name;
  }
}

// Windows, caps and factors of scores, in both forms of attention; a window that is off by one is noticed.
TEST(Gradient, Scores) {
  const AttentionCase shape{2, 9, 4, 8, 0, 2};
  for (const int window : {0, 1, 4}) {
    for (const float cap : {0.0f, 0.8f}) {
      const auto vary = [&](compiler::Attributes& a) { a.window = window, a.softcap = cap, a.scale = 0.4f; };
      const auto off_by_one = [&](compiler::Attributes& a) { vary(a), a.window = window + 1; };
      const OpCase forward = varied(attention_case(DType::f32, shape), "", vary);
      Tensors values = make_operands(forward);
      run_exactly(forward, values);
      Tensors gradient = {weights_for(forward), values[0], values[1], values[2], zeros_like(values[0])};
      run_exactly(varied(attention_backward_case(DType::f32, shape), "", vary), gradient);
      EXPECT_LE(gradient_error(forward, values, gradient[0], 0, gradient[4]), kTolerance) << window << " " << cap;
      run_exactly(varied(attention_backward_case(DType::f32, shape), "", off_by_one), gradient);
      EXPECT_GT(gradient_error(forward, values, gradient[0], 0, gradient[4]), kTolerance) << window << " " << cap;

      const OpCase probabilities = varied(attention_probabilities_case(DType::f32, shape), "", vary);
      values = make_operands(probabilities);
      run_exactly(probabilities, values);
      const OpCase backward =
          varied(attention_probabilities_backward_case(DType::f32, shape, /*other=*/false), "", vary);
      gradient = {weights_for(probabilities), values[1], values[0], zeros_like(values[0])};
      run_exactly(backward, gradient);
      EXPECT_LE(gradient_error(probabilities, values, gradient[0], 0, gradient[3]), kTolerance) << window << " " << cap;
    }
  }
}

TEST(Gradient, CappedLogits) {
  const auto capped = [](compiler::Attributes& a) { a.softcap = 0.7f; };
  const OpCase forward = varied(linear_cross_entropy_case(DType::f32, 7, 24, 33, true), "", capped);
  for (const bool forgotten : {false, true}) {
    OpCase backward = linear_cross_entropy_backward_case(DType::f32, 7, 24, 33, true);
    if (!forgotten) backward = varied(backward, "", capped);
    const Tensors values = make_operands(forward);
    Tensors gradient(values.begin(), values.end() - 1);
    for (const Tensor& output : {Tensor{0}, zeros_like(values[0]), zeros_like(values[1]), zeros_like(values[3])}) {
      gradient.push_back(output);
    }
    run_exactly(backward, gradient);
    const Tensor weight = {static_cast<double>(forward.parameters.loss_scale)};
    for (const auto& [input, output] : {std::pair<std::size_t, std::size_t>{0, 5}, {1, 6}, {3, 7}}) {
      EXPECT_EQ(gradient_error(forward, values, weight, input, gradient[output]) <= kTolerance, !forgotten) << input;
    }
  }
}

// What core attention's ops give one after the other is what attention gives, dropout's choices included.
TEST(Gradient, CoreAttentionMakesTheWhole) {
  const AttentionCase shape{2, 9, 4, 8, 0.25f, 2};
  const OpCase whole = attention_case(DType::f32, shape),
               probabilities = attention_probabilities_case(DType::f32, shape);
  Tensors expected = make_operands(whole), weights = {expected[0], Tensor(2 * 4 * 9 * 9)},
          dropped = {weights[1], weights[1]};
  run_exactly(whole, expected);
  run_exactly(probabilities, weights);
  dropped[0] = weights[1];
  run_exactly(dropout_case(DType::f32, 2 * 4 * 9, 9, shape.probability), dropped);
  Tensors mixed = {dropped[1], expected[0], zeros_like(expected[1])};
  run_exactly(attention_mix_case(DType::f32, shape), mixed);
  for (std::size_t i = 0; i < mixed[2].size(); ++i) EXPECT_NEAR(mixed[2][i], expected[1][i], 1e-14);
}

TEST(Gradient, LinearCrossEntropy) {
  for (const bool bias : {false, true}) {
    const OpCase forward = linear_cross_entropy_case(DType::f32, 7, 24, 33, bias);
    const OpCase backward = linear_cross_entropy_backward_case(DType::f32, 7, 24, 33, bias);
    const Tensors values = make_operands(forward);
    Tensors gradient(values.begin(), values.end() - 1);
    for (const Tensor& output : {Tensor{0}, zeros_like(values[0]), zeros_like(values[1])}) gradient.push_back(output);
    if (bias) gradient.push_back(zeros_like(values[3]));
    run_exactly(backward, gradient);
    const Tensor weight = {static_cast<double>(forward.parameters.loss_scale)};
    const std::size_t dx = forward.op().inputs.size() + 1;
    EXPECT_LE(gradient_error(forward, values, weight, 0, gradient[dx]), kTolerance);
    EXPECT_LE(gradient_error(forward, values, weight, 1, gradient[dx + 1]), kTolerance);
    if (bias) {
      EXPECT_LE(gradient_error(forward, values, weight, 3, gradient[dx + 2]), kTolerance);
    }
  }
}

TEST(Gradient, LossesOfRowsOfOneNumber) {
  const std::pair<OpKind, OpKind> kinds[] = {{OpKind::squared_error, OpKind::squared_error_backward},
                                             {OpKind::choice_cross_entropy, OpKind::choice_cross_entropy_backward}};
  for (const auto& [kind, backward_kind] : kinds) {
    const OpCase forward = row_loss_case(kind, DType::f32, 33), backward = row_loss_case(backward_kind, DType::f32, 33);
    const Tensors values = make_operands(forward);
    Tensors gradient = {values[0], values[1], {0}, zeros_like(values[0])};
    run_exactly(backward, gradient);
    const Tensor weight = {static_cast<double>(forward.parameters.loss_scale)};
    EXPECT_LE(gradient_error(forward, values, weight, 0, gradient[3]), kTolerance);
    gradient[3][1] += 1e-3;  // a wrong gradient is noticed
    EXPECT_GT(gradient_error(forward, values, weight, 0, gradient[3]), kTolerance);
  }
}

// Chunk after chunk gives what the op on the whole table gives, whose derivative the test above holds.
TEST(Gradient, ChunksMakeTheWhole) {
  const std::int64_t rows = 7, hidden = 24, tokens = 11, chunks = 3;
  const OpCase whole = linear_cross_entropy_backward_case(DType::f32, rows, hidden, chunks * tokens, /*bias=*/true);
  Tensors expected = make_operands(whole);  // x, table, targets, bias, loss, dx, dtable, dbias
  for (const std::size_t sums : {6, 7}) expected[sums] = zeros_like(expected[sums]);
  Tensor statistics(static_cast<std::size_t>(3 * rows)), loss(1), dx = zeros_like(expected[0]), dtable, dbias;
  const auto part = [&](std::size_t operand, std::int64_t chunk, std::int64_t columns) {
    const auto begin = expected[operand].begin() + chunk * tokens * columns;
    return Tensor(begin, begin + tokens * columns);
  };
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    OpCase forward = softmax_statistics_case(DType::f32, rows, hidden, tokens, /*bias=*/true);
    forward.parameters.first_token = chunk * tokens;
    Tensors values = {expected[0], part(1, chunk, hidden), expected[2], part(3, chunk, 1), statistics};
    run_exactly(forward, values);
    statistics = values[4];
  }
  Tensors sums = {statistics, expected[2], loss};
  run_exactly(cross_entropy_case(rows), sums);
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    OpCase backward = chunk_cross_entropy_backward_case(DType::f32, rows, hidden, tokens, /*bias=*/true);
    backward.parameters.first_token = chunk * tokens;
    const Tensor table = part(1, chunk, hidden), bias = part(3, chunk, 1);
    Tensors values = {expected[0], table, expected[2], statistics, bias, dx, zeros_like(table), zeros_like(bias)};
    run_exactly(backward, values);
    dx = values[5];
    dtable.insert(dtable.end(), values[6].begin(), values[6].end());
    dbias.insert(dbias.end(), values[7].begin(), values[7].end());
  }
  run_exactly(whole, expected);
  EXPECT_NEAR(sums[2][0], expected[4][0], 1e-12 * expected[4][0]);
  for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(dx[i], expected[5][i], 1e-14);
  for (std::size_t i = 0; i < dtable.size(); ++i) EXPECT_NEAR(dtable[i], expected[6][i], 1e-14);
  for (std::size_t i = 0; i < dbias.size(); ++i) EXPECT_NEAR(dbias[i], expected[7][i], 1e-14);
}

}  // namespace
}  // namespace l2l::test

// Gradients of the ops of a program's own layers: the backward references are the derivatives of the forward
// references.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "tests/conformance/ops/gradient_check.h"

namespace l2l::test {
namespace {

using compiler::OpKind;
using compiler::Window;

// Error of `backward`, an op whose only input is dy, as the gradient of input `input` of `forward`.
double error_of_transpose(const OpCase& forward, const OpCase& backward, std::size_t input = 0) {
  const Tensors operands = make_operands(forward);
  Tensors gradient = {weights_for(forward), zeros_like(operands[input])};
  run_exactly(backward, gradient);
  return gradient_error(forward, operands, gradient[0], input, gradient[1]);
}

TEST(Gradient, PadColumns) {
  const OpCase forward = pad_columns_case(DType::f32, 7, 5, 8, 24);
  const auto back = [](std::int64_t first) { return columns_case(OpKind::columns, DType::f32, 7, 24, first, 5); };
  EXPECT_LE(error_of_transpose(forward, back(8)), kTolerance);
  EXPECT_GT(error_of_transpose(forward, back(9)), kTolerance);
  // And the other way round.
  EXPECT_LE(error_of_transpose(back(8), forward), kTolerance);
  EXPECT_GT(error_of_transpose(back(7), forward), kTolerance);
}

TEST(Gradient, Reshape) {
  const OpCase forward = reshape_case(DType::f32, {7, 8}, 4), backward = reshape_case(DType::f32, {14, 4}, 8);
  EXPECT_LE(error_of_transpose(forward, backward), kTolerance);
}

TEST(Gradient, BroadcastAndSumOverEveryChoiceOfDimensions) {
  const Dims dims = {2, 3, 5, 7};
  const auto of = [&](OpKind kind, std::uint32_t kept, float factor) {
    return broadcast_case(kind, DType::f32, dims, kept, factor);
  };
  for (std::uint32_t kept = 0; kept < 16; ++kept) {
    SCOPED_TRACE(kept);
    for (const auto& [forward, backward] : {std::pair{OpKind::broadcast, OpKind::sum},
                                            {OpKind::sum, OpKind::broadcast},
                                            {OpKind::broadcast, OpKind::broadcast_backward}}) {
      EXPECT_LE(error_of_transpose(of(forward, kept, 0.3f), of(backward, kept, 0.3f)), kTolerance);
      EXPECT_GT(error_of_transpose(of(forward, kept, 0.3f), of(backward, kept, 1)), kTolerance);
    }
  }
}

// dy is permuted back.
TEST(Gradient, PermuteInEveryOrder) {
  const Dims dims = {2, 3, 5, 4};
  std::array<std::uint8_t, 4> axes = {0, 1, 2, 3};
  do {
    Dims permuted;
    std::array<std::uint8_t, 4> inverse;
    for (std::uint8_t i = 0; i < 4; ++i) {
      permuted[i] = dims[axes[i]];
      inverse[axes[i]] = i;
    }
    const OpCase forward = permute_case(DType::f32, dims, axes);
    EXPECT_LE(error_of_transpose(forward, permute_case(DType::f32, permuted, inverse)), kTolerance) << forward.name;
    if (inverse == axes) continue;
    EXPECT_GT(error_of_transpose(forward, permute_case(DType::f32, permuted, axes)), kTolerance) << forward.name;
  } while (std::next_permutation(axes.begin(), axes.end()));
}

constexpr Window kSlidingWindows[] = {{},
                                      {.stride = {2, 3}},
                                      {.size = {3, 3}, .padding = {1, 1}},
                                      {.size = {2, 3}, .stride = {2, 1}, .padding = {0, 1}},
                                      {.size = {3, 2}, .stride = {2, 3}, .padding = {2, 1}, .dilation = {2, 2}}};

TEST(Gradient, UnfoldFoldAndAveragePool) {
  const Dims dims = {2, 7, 6, 3};
  const std::pair<OpKind, OpKind> kinds[] = {{OpKind::unfold, OpKind::fold},
                                             {OpKind::fold, OpKind::unfold},
                                             {OpKind::average_pool, OpKind::average_pool_backward}};
  for (const Window& window : kSlidingWindows) {
    for (const auto& [kind, transposed] : kinds) {
      const OpCase forward = window_case(kind, DType::f32, dims, window);
      EXPECT_LE(error_of_transpose(forward, window_case(transposed, DType::f32, dims, window)), kTolerance)
          << forward.name;
    }
  }
  // A window of another size is noticed.
  const OpCase forward = window_case(OpKind::average_pool, DType::f32, dims, kSlidingWindows[2]);
  const OpCase shifted =
      window_case(OpKind::average_pool_backward, DType::f32, dims, {.size = {5, 3}, .padding = {2, 1}});
  EXPECT_GT(error_of_transpose(forward, shifted), kTolerance);
}

TEST(Gradient, Upsample) {
  const Dims dims = {2, 4, 3, 3};
  for (const std::array<std::int32_t, 2>& stride : {std::array{1, 1}, std::array{2, 3}, std::array{4, 8}}) {
    const OpCase forward = window_case(OpKind::upsample, DType::f32, dims, {.stride = stride});
    EXPECT_LE(error_of_transpose(forward, window_case(OpKind::upsample_backward, DType::f32, dims, {.stride = stride})),
              kTolerance)
        << forward.name;
  }
}

TEST(Gradient, MaxPool) {
  const Dims dims = {2, 7, 6, 3};
  for (const Window& window : kSlidingWindows) {
    const OpCase forward = window_case(OpKind::max_pool, DType::f32, dims, window);
    const OpCase backward = window_case(OpKind::max_pool_backward, DType::f32, dims, window);
    Tensors operands = make_operands(window_case(OpKind::unfold, DType::f32, dims, window));  // x without ties
    operands[1] = weights_for(forward);
    run_exactly(forward, operands);
    Tensors gradient = {weights_for(forward), operands[0], operands[1], zeros_like(operands[0])};
    run_exactly(backward, gradient);
    EXPECT_LE(gradient_error(forward, operands, gradient[0], 0, gradient[3]), kTolerance) << forward.name;
    for (double& y : gradient[2]) y += 1;  // nothing equals it
    run_exactly(backward, gradient);
    EXPECT_GT(gradient_error(forward, operands, gradient[0], 0, gradient[3]), kTolerance) << forward.name;
  }
}

TEST(Gradient, Depthwise) {
  const Dims dims = {2, 7, 6, 3};
  for (const Window& window : kSlidingWindows) {
    const OpCase forward = window_case(OpKind::depthwise, DType::f32, dims, window);
    const OpCase backward = window_case(OpKind::depthwise_backward, DType::f32, dims, window);
    Tensors operands = make_operands(forward);
    const Tensor dy = weights_for(forward);
    Tensors gradient = {dy, operands[0], operands[1], zeros_like(operands[0]), zeros_like(operands[1])};
    run_exactly(backward, gradient);
    EXPECT_LE(gradient_error(forward, operands, dy, 0, gradient[3]), kTolerance) << forward.name;
    EXPECT_LE(gradient_error(forward, operands, dy, 1, gradient[4]), kTolerance) << forward.name;
    std::swap(gradient[4].front(), gradient[4].back());
    EXPECT_GT(gradient_error(forward, operands, dy, 1, gradient[4]), kTolerance) << forward.name;
  }
}

// Of several largest elements the first one of the window gets the gradient.
TEST(Gradient, MaxPoolOfTies) {
  const OpCase backward =
      window_case(OpKind::max_pool_backward, DType::f32, {1, 1, 5, 1}, {.size = {1, 3}, .padding = {0, 1}});
  Tensors operands = {{1, 2, 4, 8, 16}, {3, 3, 5, 3, 5}, {3, 5, 5, 5, 5}, Tensor(5)};
  run_exactly(backward, operands);
  EXPECT_EQ(operands[3], (Tensor{1, 0, 2 + 4 + 8, 0, 16}));
}

TEST(Gradient, GroupNorm) {
  for (const int groups : {1, 2, 6}) {
    const Dims dims = {2, 3, 5, 6};
    const OpCase forward = group_norm_case(DType::f32, dims, groups);
    Tensors values = make_operands(forward);
    run_exactly(forward, values);
    Tensors gradient = {
        weights_for(forward), values[0], values[1], values[4], values[5], zeros_like(values[0]), zeros_like(values[1]),
        zeros_like(values[2])};
    run_exactly(group_norm_backward_case(DType::f32, dims, groups), gradient);
    for (std::size_t input = 0; input < 3; ++input) {
      EXPECT_LE(gradient_error(forward, values, gradient[0], input, gradient[5 + input]), kTolerance)
          << forward.name << " " << input;
    }
    for (double& mean : gradient[3]) mean += 0.01;
    for (std::size_t sums : {6, 7}) gradient[sums] = zeros_like(gradient[sums]);
    run_exactly(group_norm_backward_case(DType::f32, dims, groups), gradient);
    for (std::size_t input = 0; input < 2; ++input) {
      EXPECT_GT(gradient_error(forward, values, gradient[0], input, gradient[5 + input]), kTolerance);
    }
  }
}

TEST(Gradient, Gather) {
  const OpCase forward = gather_case(OpKind::gather, DType::f32, 3, 5, 9, 4);
  const OpCase backward = gather_case(OpKind::gather_backward, DType::f32, 3, 5, 9, 4);
  const Tensors values = make_operands(forward);
  Tensors gradient = {values[1], weights_for(forward), zeros_like(values[0])};
  run_exactly(backward, gradient);
  EXPECT_LE(gradient_error(forward, values, gradient[1], 0, gradient[2]), kTolerance);
  gradient[0][4] = std::fmod(gradient[0][4] + 1, 5);  // another row
  run_exactly(backward, gradient);
  EXPECT_GT(gradient_error(forward, values, gradient[1], 0, gradient[2]), kTolerance);
}

TEST(Gradient, Softmax) {
  const OpCase forward = pointwise_case(OpKind::softmax, DType::f32, 7, 9);
  const OpCase backward = pointwise_case(OpKind::softmax_backward, DType::f32, 7, 9);
  Tensors values = make_operands(forward);
  run_exactly(forward, values);
  Tensors gradient = {weights_for(forward), values[1], zeros_like(values[0])};
  run_exactly(backward, gradient);
  EXPECT_LE(gradient_error(forward, values, gradient[0], 0, gradient[2]), kTolerance);
  gradient[1] = values[0];  // it reads the result
  run_exactly(backward, gradient);
  EXPECT_GT(gradient_error(forward, values, gradient[0], 0, gradient[2]), kTolerance);
}

// A lookup's gradient is that of a chunk that has the whole table.
TEST(Gradient, Lookup) {
  const OpCase forward = lookup_case(DType::f32, 15, 8, 4);
  OpCase backward = embedding_rows_backward_case(DType::f32, 15, 8, 4);
  const Tensors values = make_operands(forward);
  for (const std::int64_t first : {0, 1}) {
    backward.parameters.first_token = first;
    Tensors gradient = {values[0], weights_for(forward), zeros_like(values[1])};
    run_exactly(backward, gradient);
    EXPECT_EQ(gradient_error(forward, values, gradient[1], 1, gradient[2]) <= kTolerance, first == 0);
  }
}

TEST(Gradient, RowCrossEntropy) {
  const OpCase forward = row_cross_entropy_case(OpKind::row_cross_entropy, DType::f32, 8, 9);
  const OpCase backward = row_cross_entropy_case(OpKind::row_cross_entropy_backward, DType::f32, 8, 9);
  const Tensors values = make_operands(forward);
  Tensors gradient = {weights_for(forward), values[0], values[1], zeros_like(values[0])};
  run_exactly(backward, gradient);
  EXPECT_LE(gradient_error(forward, values, gradient[0], 0, gradient[3]), kTolerance);
  for (double& target : gradient[2]) target = target < 0 ? target : 8 - target;  // other targets are noticed
  run_exactly(backward, gradient);
  EXPECT_GT(gradient_error(forward, values, gradient[0], 0, gradient[3]), kTolerance);
}

// Parts that do not count have no gradient, though they are not numbers.
TEST(Gradient, SampleLoss) {
  const OpCase forward = sample_loss_case(OpKind::sample_loss, DType::f32, 33);
  const OpCase backward = sample_loss_case(OpKind::sample_loss_backward, DType::f32, 33);
  const Tensors values = make_operands(forward);
  Tensors gradient = {values[0], values[1], {0}, zeros_like(values[0])};
  run_exactly(backward, gradient);
  const Tensor weight = {static_cast<double>(forward.parameters.loss_scale)};
  EXPECT_LE(gradient_error(forward, values, weight, 0, gradient[3]), kTolerance);
  Tensors loss = values;
  run_exactly(forward, loss);
  EXPECT_EQ(gradient[2], loss[2]);
  gradient[3][1] += 1e-3;
  EXPECT_GT(gradient_error(forward, values, weight, 0, gradient[3]), kTolerance);
}

}  // namespace
}  // namespace l2l::test

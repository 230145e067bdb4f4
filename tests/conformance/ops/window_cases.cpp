// Cases of the ops of images: windows that slide over them, and norms of groups of their channels.
#include <array>
#include <utility>

#include "tests/conformance/ops/case_builder.h"

namespace l2l::test {
namespace {

using compiler::OpKind;
using compiler::Window;

constexpr std::pair<Dims, Window> kWindows[] = {
    {{1, 1, 1, 1}, {}},
    {{1, 1, 1, 33}, {.size = {3, 3}, .padding = {1, 1}}},
    {{2, 7, 5, 16}, {}},
    {{2, 7, 5, 7}, {.stride = {2, 3}}},
    {{2, 5, 7, 3}, {.size = {3, 3}, .padding = {1, 1}}},
    {{2, 5, 7, 3}, {.size = {2, 3}, .stride = {2, 1}, .padding = {0, 1}}},
    {{1, 9, 8, 7}, {.size = {3, 2}, .stride = {2, 3}, .padding = {2, 1}, .dilation = {2, 2}}},
    {{2, 8, 9, 5}, {.size = {3, 3}, .dilation = {2, 3}}},
    {{3, 6, 6, 8}, {.size = {2, 2}, .stride = {2, 2}}},
    {{2, 10, 9, 3}, {.size = {2, 2}, .stride = {3, 4}}},  // gaps, and elements behind the last window
    {{3, 4, 4, 33}, {.size = {4, 4}}},
    {{1, 1, 33, 7}, {.size = {1, 5}, .padding = {0, 2}}},
    {{2, 12, 3, 1}, {.size = {4, 1}, .stride = {1, 1}, .padding = {3, 0}}},
    {{1, 12, 11, 24}, {.size = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
    {{2, 30, 31, 5}, {.size = {3, 3}, .padding = {1, 1}}},
    {{1, 9, 8, 40}, {.size = {5, 5}, .padding = {2, 2}}},
    {{2, 5, 4, 130}, {.size = {3, 3}, .padding = {1, 1}}},
    {{1, 3, 4, 65}, {.size = {2, 2}}},
};

// Images, and how many times as high and as wide they become.
constexpr std::pair<Dims, std::array<std::int32_t, 2>> kFactors[] = {
    {{1, 1, 1, 1}, {1, 1}},  {{1, 1, 1, 5}, {3, 2}},  {{2, 3, 4, 8}, {2, 2}},   {{2, 5, 3, 7}, {4, 1}},
    {{1, 4, 6, 33}, {8, 4}}, {{3, 2, 2, 16}, {3, 5}}, {{1, 12, 9, 24}, {2, 2}}, {{2, 7, 8, 130}, {2, 4}}};

constexpr std::pair<Dims, int> kGroups[] = {
    {{1, 1, 1, 8}, 1},   {{2, 3, 5, 7}, 1},    {{2, 3, 5, 7}, 7},    {{3, 1, 1, 33}, 1},
    {{3, 1, 1, 33}, 3},  {{1, 1, 40, 24}, 4},  {{1, 1, 40, 24}, 24}, {{2, 8, 9, 12}, 3},
    {{2, 8, 9, 12}, 12}, {{5, 4, 4, 32}, 8},   {{1, 20, 20, 6}, 2},  {{2, 30, 31, 5}, 1},
    {{2, 30, 31, 5}, 5}, {{2, 1, 1, 8200}, 2}, {{4, 1, 2, 160}, 16}, {{70, 3, 3, 10}, 5}};

CaseBuilder image_builder(OpKind kind, DType dtype, const Dims& dims) {
  CaseBuilder builder(kind, dtype);
  builder.attributes().dims = dims;
  builder.named(join({dims[0], dims[1], dims[2], dims[3]}));
  return builder;
}

std::string name_of_window(const Window& window) {
  const auto two = [](const char* name, const std::array<std::int32_t, 2>& numbers) {
    return name + join({numbers[0], numbers[1]});
  };
  std::string name = two("window", window.size);
  if (window.stride != Window{}.stride) name += two("_stride", window.stride);
  if (window.padding != Window{}.padding) name += two("_padding", window.padding);
  if (window.dilation != Window{}.dilation) name += two("_dilation", window.dilation);
  return name;
}

}  // namespace

OpCase window_case(OpKind kind, DType dtype, Dims dims, const Window& window) {
  CaseBuilder builder = image_builder(kind, dtype, dims);
  builder.attributes().image_window = window;
  builder.named(name_of_window(window));
  const bool larger = kind == OpKind::upsample || kind == OpKind::upsample_backward;
  const std::int64_t rows = larger ? dims[0] * dims[1] * window.stride[0] * dims[2] * window.stride[1]
                                   : dims[0] * window.places(0, dims[1]) * window.places(1, dims[2]);
  const Shape image{dims[0] * dims[1] * dims[2], dims[3]}, pooled{rows, dims[3]};
  const Shape unfolded{rows, window.size[0] * window.size[1] * dims[3]};
  const bool depthwise = kind == OpKind::depthwise || kind == OpKind::depthwise_backward;
  const bool backward = kind == OpKind::fold || kind == OpKind::max_pool_backward ||
                        kind == OpKind::average_pool_backward || kind == OpKind::depthwise_backward ||
                        kind == OpKind::upsample_backward;
  const Shape& places = kind == OpKind::unfold || kind == OpKind::fold ? unfolded : pooled;
  builder.input(backward ? places : image);
  const Shape weights{dims[3], std::int64_t{window.size[0]} * window.size[1]};
  if (kind == OpKind::max_pool_backward) builder.input(image).input(pooled);
  if (kind == OpKind::depthwise_backward) builder.input(image);
  if (depthwise) builder.input(weights);
  builder.output(backward ? image : places);
  if (kind == OpKind::depthwise_backward) builder.output(DType::f32, weights);
  return builder.checked();
}

OpCase group_norm_case(DType dtype, Dims dims, int groups) {
  CaseBuilder builder = image_builder(OpKind::group_norm, dtype, dims);
  builder.attributes().epsilon = 1e-5f;
  builder.attributes().groups = groups;
  const Shape image{dims[0] * dims[1] * dims[2], dims[3]}, channels{dims[3]}, statistics{dims[0], groups};
  builder.named("of" + std::to_string(groups)).input(image).input(channels).input(channels);
  return builder.output(image).output(DType::f32, statistics).output(DType::f32, statistics).checked();
}

OpCase group_norm_backward_case(DType dtype, Dims dims, int groups) {
  CaseBuilder builder = image_builder(OpKind::group_norm_backward, dtype, dims);
  builder.attributes().epsilon = 1e-5f;
  builder.attributes().groups = groups;
  const Shape image{dims[0] * dims[1] * dims[2], dims[3]}, channels{dims[3]}, statistics{dims[0], groups};
  builder.named("of" + std::to_string(groups)).input(image).input(image).input(channels);
  builder.input(DType::f32, statistics).input(DType::f32, statistics);
  return builder.output(image).output(DType::f32, channels).output(DType::f32, channels).checked();
}

OpCase batch_norm_case(DType dtype, std::int64_t rows, std::int64_t channels, bool training) {
  CaseBuilder builder(OpKind::batch_norm, dtype);
  builder.attributes().dims = {1, rows, 1, channels};
  builder.attributes().epsilon = 1e-5f;
  builder.attributes().groups = static_cast<int>(channels);
  builder.named(join({rows, channels}));
  builder.input({rows, channels});
  for (int i = 0; i < 4; ++i) builder.input({channels});
  builder.output({rows, channels}).output(DType::f32, {1, channels}).output(DType::f32, {1, channels});
  OpCase result = builder.checked();
  if (!training) result.name += "_evaluation";
  result.parameters.training = training;
  return result;
}

OpCase batch_statistics_case(std::int64_t rows, std::int64_t channels, std::size_t parameters) {
  CaseBuilder builder(OpKind::batch_statistics, DType::f32);
  builder.attributes().dims = {1, rows, 1, channels};
  builder.attributes().epsilon = 1e-5f;
  builder.attributes().groups = static_cast<int>(channels);
  builder.named(join({rows, channels, static_cast<std::int64_t>(parameters)}));
  builder.input({1, channels}).input({1, channels});
  for (std::size_t i = 0; i < parameters; ++i) builder.output(DType::f32, {channels});
  return builder.checked();
}

std::vector<OpCase> window_conformance_cases(DType dtype) {
  std::vector<OpCase> cases;
  for (const auto& [dims, window] : kWindows) {
    for (const OpKind kind :
         {OpKind::unfold, OpKind::fold, OpKind::max_pool, OpKind::max_pool_backward, OpKind::average_pool,
          OpKind::average_pool_backward, OpKind::depthwise, OpKind::depthwise_backward}) {
      cases.push_back(window_case(kind, dtype, dims, window));
    }
    cases.push_back(frozen(window_case(OpKind::depthwise_backward, dtype, dims, window), 1));
  }
  for (const auto& [dims, stride] : kFactors) {
    for (const OpKind kind : {OpKind::upsample, OpKind::upsample_backward}) {
      cases.push_back(window_case(kind, dtype, dims, {.stride = stride}));
    }
  }
  for (const auto& [dims, groups] : kGroups) {
    cases.push_back(group_norm_case(dtype, dims, groups));
    cases.push_back(group_norm_backward_case(dtype, dims, groups));
    for (const std::size_t parameters : {1, 2}) {
      cases.push_back(frozen(group_norm_backward_case(dtype, dims, groups), parameters));
    }
  }
  for (const auto& [rows, channels] :
       {std::pair{2, 1}, std::pair{2, 33}, std::pair{33, 8}, std::pair{70, 130}, std::pair{3000, 24}}) {
    for (const bool training : {true, false}) cases.push_back(batch_norm_case(dtype, rows, channels, training));
    if (rows > 2) {  // of two rows the gradient is a difference of nearly equal numbers
      const OpCase backward = group_norm_backward_case(dtype, {1, rows, 1, channels}, static_cast<int>(channels));
      cases.push_back(backward);
      for (const std::size_t parameters : {1, 2}) cases.push_back(frozen(backward, parameters));
    }
    if (dtype != DType::f32) continue;
    for (const std::size_t parameters : {1, 2}) cases.push_back(batch_statistics_case(rows, channels, parameters));
  }
  return cases;
}

}  // namespace l2l::test

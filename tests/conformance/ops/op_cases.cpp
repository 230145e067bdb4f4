#include <array>
#include <functional>
#include <utility>

#include "tests/conformance/ops/op_table.h"

namespace l2l::test {
namespace {

using compiler::Attributes;
using compiler::OpKind;

constexpr AttentionCase kAttentionCases[] = {{1, 1, 1, 8},
                                             {2, 5, 3, 8},
                                             {1, 64, 1, 16},
                                             {1, 100, 3, 32},
                                             {2, 100, 1, 64, 0.1f},
                                             {2, 7, 3, 20, 0.3f},
                                             {1, 49, 5, 40, 0.5f},
                                             {1, 130, 1, 24},
                                             // Grouped queries, every row of a sequence, heads as large models have.
                                             {2, 33, 4, 16, 0, 2},
                                             {1, 70, 4, 24, 0.1f, 1},
                                             {2, 100, 3, 32, 0, 0, false},
                                             {1, 49, 4, 20, 0.3f, 2, false},
                                             {1, 130, 2, 64, 0.1f, 0, false},
                                             {1, 50, 4, 128, 0, 2},
                                             {1, 257, 2, 64, 0, 1},
                                             // Wide heads; several tiles of a GPU's kernels; with and without sharing
                                             // blocks of random numbers between rows.
                                             {1, 132, 2, 96, 0.25f, 1, false},
                                             {1, 257, 2, 64, 0.1f, 1},
                                             {1, 68, 4, 128, 0.1f, 2},
                                             {1, 33, 1, 256},
                                             // What cuDNN takes in 16 bits.
                                             {2, 128, 4, 64, 0, 2},
                                             {1, 128, 2, 128, 0, 0, false},
                                             {1, 128, 2, 152},
                                             {1, 256, 1, 256, 0, 0, false},
                                             {1, 20, 2, 150, 0.5f, 1, false}};

// Without dropout, which is an op of its own there.
constexpr AttentionCase kCoreAttentionCases[] = {{3, 1, 5, 8},
                                                 {2, 5, 3, 8},
                                                 {1, 100, 3, 32},
                                                 {1, 130, 1, 24},
                                                 {2, 33, 4, 16, 0, 2},
                                                 {2, 100, 3, 32, 0, 0, false},
                                                 {1, 49, 4, 20, 0, 2, false},
                                                 {1, 70, 4, 128, 0, 1},
                                                 {1, 257, 2, 64, 0, 1},
                                                 {1, 264, 1, 96},
                                                 {1, 40, 2, 150, 0, 1, false}};

void add_matmuls(std::vector<OpCase>& cases, DType dtype) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                {1, 24, 8},
                                {7, 8, 24},
                                {33, 160, 24},
                                {100, 1, 33},
                                {130, 24, 160},
                                {33, 700, 40},
                                {520, 8, 24},
                                {24, 520, 300},
                                {520, 40, 300},
                                {3400, 3, 260}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        MatmulCase shape{m, n, k, transpose_a, transpose_b};
        cases.push_back(matmul_case(dtype, dtype, shape));
        shape.bias = true;
        cases.push_back(matmul_case(dtype, dtype, shape));
        shape.bias = false;
        shape.accumulate = true;
        cases.push_back(matmul_case(dtype, DType::f32, shape));
      }
    }
  }
  if (dtype != DType::f32) cases.push_back(matmul_case(dtype, DType::f32, {33, 70, 24, false, true}));
}

void add_row_ops(std::vector<OpCase>& cases, DType dtype) {
  for (const std::int64_t rows : {1, 7, 33, 200}) {
    for (const std::int64_t hidden : {3, 8, 24, 160}) {
      cases.push_back(layer_norm_case(dtype, rows, hidden));
      cases.push_back(layer_norm_backward_case(dtype, rows, hidden));
      cases.push_back(bias_gradient_case(dtype, rows, hidden));
      cases.push_back(rms_norm_case(dtype, rows, hidden));
      cases.push_back(rms_norm_backward_case(dtype, rows, hidden));
      cases.push_back(frozen(layer_norm_backward_case(dtype, rows, hidden), 1));
      cases.push_back(frozen(layer_norm_backward_case(dtype, rows, hidden), 2));
      cases.push_back(frozen(rms_norm_backward_case(dtype, rows, hidden), 1));
    }
  }
  // Rows that take one to sixteen warps, and rows that do not fit the registers.
  for (const std::int64_t hidden : {520, 1031, 2056, 4104, 8200, 16392}) {
    cases.push_back(layer_norm_case(dtype, 3, hidden));
    cases.push_back(layer_norm_backward_case(dtype, 3, hidden));
    cases.push_back(rms_norm_case(dtype, 3, hidden));
    cases.push_back(rms_norm_backward_case(dtype, 3, hidden));
    cases.push_back(frozen(layer_norm_backward_case(dtype, 3, hidden), hidden % 2 == 0 ? 1 : 2));
    cases.push_back(frozen(rms_norm_backward_case(dtype, 3, hidden), 1));
    if (hidden < 4000) cases.push_back(bias_gradient_case(dtype, 70, hidden));
  }
  // Many rows for each block of threads.
  cases.push_back(layer_norm_backward_case(dtype, 4229, 24));
  cases.push_back(rms_norm_backward_case(dtype, 300, 2064));
  cases.push_back(layer_norm_backward_case(dtype, 600, 1040));
  for (const std::int64_t sequence : {1, 5, 33}) {
    cases.push_back(embedding_case(dtype, 3 * sequence, sequence, 24, 11));
    cases.push_back(embedding_backward_case(dtype, 3 * sequence, sequence, 24, 11));
    cases.push_back(embedding_backward_case(dtype, 3 * sequence, sequence, 160, 3));
  }
}

void add_streams(std::vector<OpCase>& cases, DType dtype) {
  const std::array<std::int64_t, 2> shapes[] = {{1, 1}, {7, 8}, {33, 24}, {100, 331}, {1100, 331}};
  for (const auto& [rows, columns] : shapes) {
    for (const DType stream : {DType::f32, DType::i32}) {
      for (const OpKind kind :
           {OpKind::split_streams, OpKind::merge_streams, OpKind::read_stream, OpKind::reversible_add}) {
        cases.push_back(stream_case(kind, dtype, stream, rows, columns));
      }
      cases.push_back(stream_case(OpKind::reversible_add, dtype, stream, rows, columns, /*inverse=*/true));
      cases.push_back(frozen(stream_case(OpKind::split_streams, dtype, stream, rows, columns), 1));
    }
    if (dtype != DType::f32) cases.push_back(stream_case(OpKind::split_streams, dtype, dtype, rows, columns));
  }
}

void add_pointwise(std::vector<OpCase>& cases, DType dtype) {
  cases.push_back(pointwise_case(OpKind::add, dtype, 1100, 331));  // several turns of each thread of a small grid
  cases.push_back(convert_squares_case(dtype, 1100, 331));
  for (const std::int64_t rows : {1, 2, 3, 6, 7, 8, 13, 63, 64}) {
    for (const std::int64_t columns : {1, 8, 331, 70'000}) {
      if (rows < 13 || columns < 1000) cases.push_back(tree_sum_case(dtype, rows, columns));
    }
  }
  const std::array<std::int64_t, 2> shapes[] = {{1, 1}, {7, 8}, {33, 24}, {100, 331}};
  for (const auto& [rows, columns] : shapes) {
    for (const OpKind kind : {OpKind::gelu, OpKind::gelu_backward, OpKind::tanh, OpKind::tanh_backward, OpKind::sigmoid,
                              OpKind::sigmoid_backward, OpKind::silu, OpKind::silu_backward, OpKind::hard_sigmoid,
                              OpKind::hard_sigmoid_backward, OpKind::hard_swish, OpKind::hard_swish_backward,
                              OpKind::relu, OpKind::relu_backward, OpKind::add, OpKind::multiply, OpKind::convert}) {
      cases.push_back(pointwise_case(kind, dtype, rows, columns));
    }
    for (const OpKind kind : {OpKind::gelu, OpKind::gelu_backward}) {
      cases.push_back(pointwise_case(kind, dtype, rows, columns, /*exact=*/true));
    }
    cases.push_back(convert_squares_case(dtype, rows, columns));
    if (dtype == DType::f32) cases.push_back(accumulate_case(rows, columns));
    for (const OpKind kind : {OpKind::columns, OpKind::add_columns}) {
      cases.push_back(columns_case(kind, dtype, rows, columns, 0, columns));
      cases.push_back(columns_case(kind, dtype, rows, columns + 24, columns, 8));
      cases.push_back(columns_case(kind, dtype, rows, columns + 16, 16, columns));
    }
    cases.push_back(swiglu_case(dtype, rows, columns));
    cases.push_back(swiglu_backward_case(dtype, rows, columns));
    for (const float probability : {0.0f, 0.1f, 0.75f}) {
      cases.push_back(dropout_case(dtype, rows, columns, probability));
    }
  }
}

void add_attention(std::vector<OpCase>& cases, DType dtype) {
  for (const AttentionCase& shape : kAttentionCases) {
    cases.push_back(attention_case(dtype, shape));
    cases.push_back(attention_backward_case(dtype, shape));
  }
  for (const bool inverse : {false, true}) {
    cases.push_back(rotary_case(dtype, {1, 1, 1, 2}, 10000, inverse));
    cases.push_back(rotary_case(dtype, {3, 5, 3, 6}, 10000, inverse));
    cases.push_back(rotary_case(dtype, {2, 100, 4, 64, 0, 2}, 10000, inverse));
    cases.push_back(rotary_case(dtype, {1, 257, 4, 128, 0, 1}, 500000, inverse));
  }
}

// Attributes of scores, on every path of the kernels: fp32 and 16-bit types, narrow and wide heads.
const std::pair<const char*, std::function<void(Attributes&)>> kScores[] = {
    {"window1", [](Attributes& a) { a.window = 1; }},
    {"window7", [](Attributes& a) { a.window = 7; }},
    {"window70", [](Attributes& a) { a.window = 70; }},
    {"cap", [](Attributes& a) { a.softcap = 0.75f; }},
    {"scale_window_cap", [](Attributes& a) { a.scale = 0.3f, a.window = 33, a.softcap = 2; }}};

void add_scores(std::vector<OpCase>& cases, DType dtype) {
  for (const auto& [name, vary] : kScores) {
    for (const AttentionCase& shape : {AttentionCase{2, 33, 4, 16, 0, 2},
                                       {1, 200, 2, 64, 0, 1},
                                       {1, 150, 1, 136},
                                       {2, 100, 1, 20, 0.3f},
                                       {1, 260, 1, 128}}) {
      cases.push_back(varied(attention_case(dtype, shape), name, vary));
      cases.push_back(varied(attention_backward_case(dtype, shape), name, vary));
    }
    for (const AttentionCase& shape :
         {AttentionCase{2, 33, 4, 16, 0, 2}, {1, 100, 2, 24, 0, 1}, {1, 264, 2, 64, 0, 1}}) {
      cases.push_back(varied(attention_probabilities_case(dtype, shape), name, vary));
      cases.push_back(varied(attention_probabilities_backward_case(dtype, shape), name, vary));
      cases.push_back(varied(attention_mix_case(dtype, shape), name, vary));
      cases.push_back(varied(attention_mix_backward_case(dtype, shape), name, vary));
    }
  }
}

// Documents that share sequences, on every path of the kernels.
void add_packed(std::vector<OpCase>& cases, DType dtype) {
  const auto window = [](Attributes& a) { a.window = 20; };
  const auto cap = [](Attributes& a) { a.softcap = 0.75f; };
  for (const AttentionCase& shape : {AttentionCase{3, 1, 2, 8},
                                     {2, 33, 4, 16, 0, 2},
                                     {1, 257, 2, 64, 0, 1},
                                     {1, 200, 2, 64, 0.1f, 1},
                                     {2, 100, 3, 32, 0, 0, false},
                                     {1, 260, 1, 128, 0.25f, 0, false},
                                     {1, 130, 2, 96},
                                     {2, 70, 1, 20, 0.3f},
                                     {1, 150, 1, 136, 0, 0, false}}) {
    cases.push_back(packed(attention_case(dtype, shape)));
    cases.push_back(packed(attention_backward_case(dtype, shape)));
    if (!shape.causal || shape.sequence > 150) continue;  // the longest take seconds on an emulated GPU
    cases.push_back(packed(varied(attention_case(dtype, shape), "window", window)));
    cases.push_back(packed(varied(attention_backward_case(dtype, shape), "window", window)));
    cases.push_back(packed(varied(attention_backward_case(dtype, shape), "cap", cap)));
  }
  for (const AttentionCase& shape :
       {AttentionCase{2, 33, 4, 16, 0, 2}, {1, 257, 2, 64, 0, 1}, {2, 100, 3, 32, 0, 0, false}}) {
    cases.push_back(packed(attention_probabilities_case(dtype, shape)));
    cases.push_back(packed(varied(attention_probabilities_case(dtype, shape), "cap", cap)));
  }
  for (const bool inverse : {false, true}) {
    cases.push_back(packed(rotary_case(dtype, {3, 5, 3, 6}, 10000, inverse)));
    cases.push_back(packed(rotary_case(dtype, {2, 100, 4, 64, 0, 2}, 10000, inverse)));
  }
  for (const std::int64_t sequence : {1, 7, 100}) {
    cases.push_back(packed(embedding_case(dtype, 3 * sequence, sequence, 24, 11)));
    cases.push_back(packed(embedding_backward_case(dtype, 3 * sequence, sequence, 24, 11)));
    cases.push_back(packed(positions_case(dtype, 3 * sequence, sequence, 24)));
    cases.push_back(packed(positions_backward_case(dtype, 3 * sequence, sequence, 24)));
  }
  cases.push_back(packed(positions_backward_case(dtype, 2000, 10, 100)));
}

// Attention to a cache: one row of each sequence, and several; positions of rows beyond those of a sequence.
void add_cached(std::vector<OpCase>& cases, DType dtype) {
  const std::pair<AttentionCase, std::int64_t> shapes[] = {{{1, 1, 1, 2}, 1},         {{5, 1, 4, 16, 0, 2}, 33},
                                                           {{3, 7, 6, 20, 0, 3}, 50}, {{2, 40, 2, 64, 0, 1}, 40},
                                                           {{8, 1, 2, 128}, 300},     {{1, 9, 1, 256}, 70}};
  for (const auto& [shape, capacity] : shapes) {
    const OpCase plain = cached_attention_case(dtype, shape, capacity);
    cases.push_back(plain);
    cases.push_back(varied(plain, "window7", [](Attributes& a) { a.window = 7; }));
    cases.push_back(varied(plain, "scale_cap", [](Attributes& a) { a.scale = 0.3f, a.softcap = 2; }));
  }
  using Kind = compiler::RotaryScaling::Kind;
  const compiler::RotaryScaling dynamic{.kind = Kind::dynamic, .factor = 4, .positions = 32};
  for (const AttentionCase& shape : {AttentionCase{6, 1, 4, 16, 0, 2}, {2, 30, 3, 6}}) {
    cases.push_back(varied(packed(rotary_case(dtype, shape, 10000, false)), "of50",
                           [&](Attributes& a) { a.positions = 50, a.rotary_scaling = dynamic; }));
  }
}

void add_head_norms(std::vector<OpCase>& cases, DType dtype) {
  for (const AttentionCase& shape :
       {AttentionCase{1, 1, 1, 2}, {2, 9, 4, 6, 0, 2}, {1, 50, 3, 20}, {2, 40, 4, 64, 0, 1}, {1, 33, 2, 256, 0, 1}}) {
    for (const OpCase& each : {head_norm_case(dtype, shape), head_norm_backward_case(dtype, shape)}) {
      cases.push_back(each);
      cases.push_back(varied(each, "unit", [](Attributes& a) { a.unit_offset = true; }));
    }
    for (const std::size_t gains : {1, 2}) cases.push_back(frozen(head_norm_backward_case(dtype, shape), gains));
  }
}

void add_rotary_scalings(std::vector<OpCase>& cases, DType dtype) {
  using Kind = compiler::RotaryScaling::Kind;
  const std::pair<const char*, compiler::RotaryScaling> scalings[] = {
      {"linear", {.kind = Kind::linear, .factor = 4}},
      {"dynamic", {.kind = Kind::dynamic, .factor = 4, .positions = 32}},
      {"llama3", {.kind = Kind::llama3, .factor = 8, .positions = 64}},
      {"yarn", {.kind = Kind::yarn, .factor = 4, .positions = 64, .magnitude = 1.25f}}};
  for (const auto& [name, scaling] : scalings) {
    for (const bool inverse : {false, true}) {
      cases.push_back(varied(rotary_case(dtype, {2, 100, 4, 64, 0, 2}, 10000, inverse), name,
                             [&](Attributes& a) { a.rotary_scaling = scaling; }));
    }
  }
}

// Gates, norms, losses and embeddings as Gemma has them.
void add_gemma(std::vector<OpCase>& cases, DType dtype) {
  const auto unit = [](Attributes& a) { a.unit_offset = true; };
  const auto capped = [](Attributes& a) { a.softcap = 1.5f; };
  const auto scaled = [](Attributes& a) { a.factor = 12.34f; };
  for (const std::int64_t hidden : {3, 24, 160, 520, 8200}) {
    cases.push_back(varied(rms_norm_case(dtype, 7, hidden), "unit", unit));
    cases.push_back(varied(rms_norm_backward_case(dtype, 7, hidden), "unit", unit));
  }
  for (const OpKind kind : {OpKind::add_rms_norm, OpKind::rms_norm_backward_add}) {
    cases.push_back(varied(fused_case(kind, dtype, 7, 160), "unit", unit));
    cases.push_back(varied(fused_case(kind, dtype, 3, 1031), "unit", unit));
  }
  for (const bool exact : {false, true}) {
    const auto gelu = [exact](Attributes& a) { a.gelu = true, a.exact = exact; };
    const std::string name = exact ? "gelu_exact" : "gelu";
    for (const auto& [rows, columns] : {std::array<std::int64_t, 2>{7, 8}, {33, 24}, {100, 331}}) {
      cases.push_back(varied(swiglu_case(dtype, rows, columns), name, gelu));
      cases.push_back(varied(swiglu_backward_case(dtype, rows, columns), name, gelu));
    }
  }
  for (const bool bias : {false, true}) {
    for (const auto& [rows, hidden, vocabulary] : {std::array<std::int64_t, 3>{7, 24, 33}, {700, 8, 9000}}) {
      if (bias && rows > 7) continue;  // slow, and each of the two is there without the other
      cases.push_back(varied(linear_cross_entropy_case(dtype, rows, hidden, vocabulary, bias), "cap", capped));
      cases.push_back(varied(linear_cross_entropy_backward_case(dtype, rows, hidden, vocabulary, bias), "cap", capped));
    }
    cases.push_back(varied(softmax_statistics_case(dtype, 33, 160, 100, bias), "cap", capped));
    cases.push_back(varied(chunk_cross_entropy_backward_case(dtype, 33, 160, 100, bias), "cap", capped));
  }
  cases.push_back(varied(embedding_rows_case(dtype, 33, 160, 100), "factor", scaled));
  cases.push_back(varied(embedding_rows_backward_case(dtype, 300, 24, 7), "factor", scaled));
}

void add_core_attention(std::vector<OpCase>& cases, DType dtype) {
  for (const AttentionCase& shape : kCoreAttentionCases) {
    cases.push_back(attention_probabilities_case(dtype, shape));
    cases.push_back(attention_probabilities_backward_case(dtype, shape));
    cases.push_back(attention_mix_case(dtype, shape));
    cases.push_back(attention_mix_backward_case(dtype, shape));
  }
  for (const AttentionCase& shape : {AttentionCase{2, 33, 4, 16, 0, 2}, {1, 257, 2, 64, 0, 1}}) {
    cases.push_back(attention_probabilities_backward_case(dtype, shape, /*other=*/false));
  }
}

void add_losses(std::vector<OpCase>& cases, DType dtype) {
  // The last three have several panels of logits: chunks of rows, or parts of the vocabulary.
  const std::array<std::int64_t, 3> shapes[] = {{1, 8, 3},     {7, 24, 33},    {33, 160, 100},
                                                {2101, 8, 17}, {70, 8, 66000}, {700, 8, 9000}};
  for (const auto& [rows, hidden, vocabulary] : shapes) {
    cases.push_back(linear_cross_entropy_case(dtype, rows, hidden, vocabulary));
    cases.push_back(linear_cross_entropy_backward_case(dtype, rows, hidden, vocabulary));
    cases.push_back(linear_cross_entropy_case(dtype, rows, hidden, vocabulary, /*bias=*/true));
    cases.push_back(linear_cross_entropy_backward_case(dtype, rows, hidden, vocabulary, /*bias=*/true));
    cases.push_back(frozen(linear_cross_entropy_backward_case(dtype, rows, hidden, vocabulary), 1));
    if (rows > 100) continue;
    cases.push_back(frozen(linear_cross_entropy_backward_case(dtype, rows, hidden, vocabulary, /*bias=*/true), 1));
    cases.push_back(frozen(linear_cross_entropy_backward_case(dtype, rows, hidden, vocabulary, /*bias=*/true), 2));
  }
  for (const OpKind kind : {OpKind::squared_error, OpKind::squared_error_backward, OpKind::choice_cross_entropy,
                            OpKind::choice_cross_entropy_backward}) {
    for (const std::int64_t rows : {7, 33, 2101}) cases.push_back(row_loss_case(kind, dtype, rows));
  }
  for (const OpKind kind : {OpKind::row_cross_entropy, OpKind::row_cross_entropy_backward}) {
    for (const auto& [rows, columns] :
         {std::array<std::int64_t, 2>{1, 3}, {7, 33}, {33, 100}, {200, 7}, {2101, 17}, {3, 9000}, {2, 33001}}) {
      cases.push_back(row_cross_entropy_case(kind, dtype, rows, columns));
    }
  }
  for (const OpKind kind : {OpKind::sample_loss, OpKind::sample_loss_backward}) {
    for (const std::int64_t samples : {1, 7, 33, 2101}) cases.push_back(sample_loss_case(kind, dtype, samples));
  }
}

void add_chunks(std::vector<OpCase>& cases, DType dtype) {
  // The last two have several panels of logits.
  const std::array<std::int64_t, 3> shapes[] = {{1, 8, 3}, {7, 24, 33}, {33, 160, 100}, {2101, 8, 17}, {70, 8, 4500}};
  for (const auto& [rows, hidden, tokens] : shapes) {
    cases.push_back(softmax_statistics_case(dtype, rows, hidden, tokens));
    cases.push_back(chunk_cross_entropy_backward_case(dtype, rows, hidden, tokens));
    cases.push_back(softmax_statistics_case(dtype, rows, hidden, tokens, /*bias=*/true));
    cases.push_back(chunk_cross_entropy_backward_case(dtype, rows, hidden, tokens, /*bias=*/true));
    cases.push_back(frozen(chunk_cross_entropy_backward_case(dtype, rows, hidden, tokens), 1));
    cases.push_back(frozen(chunk_cross_entropy_backward_case(dtype, rows, hidden, tokens, /*bias=*/true), 1));
    cases.push_back(frozen(chunk_cross_entropy_backward_case(dtype, rows, hidden, tokens, /*bias=*/true), 2));
    cases.push_back(embedding_rows_case(dtype, rows, hidden, tokens));
    cases.push_back(embedding_rows_backward_case(dtype, rows, hidden, tokens));
  }
  for (const std::int64_t sequence : {1, 5, 33}) {
    cases.push_back(positions_case(dtype, 3 * sequence, sequence, 24));
    cases.push_back(positions_backward_case(dtype, 3 * sequence, sequence, 24));
    cases.push_back(positions_backward_case(dtype, 200 * sequence, sequence, 100));
  }
}

// Dropout by bytes, where lanes share blocks of 16 keys on every path of the kernels, and by words: of older runs, and
// where bytes are too coarse for the probability.
void add_masks(std::vector<OpCase>& cases, DType dtype) {
  for (const AttentionCase& shape : {AttentionCase{2, 48, 2, 64, 0.1f},
                                     {1, 144, 1, 32, 0.25f},
                                     {1, 80, 2, 96, 0.1f, 1, false},
                                     {1, 64, 1, 128, 0.5f},
                                     {1, 80, 2, 20, 0.3f},
                                     {1, 48, 1, 136, 0.1f}}) {
    cases.push_back(attention_case(dtype, shape));
    cases.push_back(attention_backward_case(dtype, shape));
  }
  cases.push_back(packed(attention_case(dtype, {1, 96, 2, 64, 0.1f})));
  cases.push_back(packed(attention_backward_case(dtype, {1, 96, 2, 64, 0.1f})));
  for (const float probability : {0.1f, 0.01f}) {
    std::vector<OpCase> all = {dropout_case(dtype, 7, 33, probability), dropout_case(dtype, 3, 64, probability)};
    for (const AttentionCase& shape : {AttentionCase{1, 48, 2, 32, probability},
                                       {1, 48, 2, 20, probability},
                                       {1, 49, 2, 32, probability},
                                       {1, 33, 2, 20, probability}}) {
      all.push_back(attention_case(dtype, shape));
      all.push_back(attention_backward_case(dtype, shape));
    }
    for (OpCase& words : all) {
      words.name += "_words";
      if (probability > 0.05f) words.parameters.dropout_masks = DropoutMasks::words;
      cases.push_back(std::move(words));
    }
  }
}

// Evaluation: dropout must be the identity.
void add_evaluation(std::vector<OpCase>& cases, DType dtype) {
  for (OpCase evaluation : {dropout_case(dtype, 7, 8, 0.5f), attention_case(dtype, {2, 7, 3, 20, 0.3f})}) {
    evaluation.name += "_evaluation";
    evaluation.parameters.training = false;
    cases.push_back(std::move(evaluation));
  }
}

}  // namespace

std::vector<OpCase> conformance_cases() {
  std::vector<OpCase> cases;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    add_matmuls(cases, dtype);
    add_row_ops(cases, dtype);
    add_pointwise(cases, dtype);
    add_streams(cases, dtype);
    add_attention(cases, dtype);
    add_masks(cases, dtype);
    add_core_attention(cases, dtype);
    add_scores(cases, dtype);
    add_cached(cases, dtype);
    add_head_norms(cases, dtype);
    add_rotary_scalings(cases, dtype);
    add_packed(cases, dtype);
    add_gemma(cases, dtype);
    add_losses(cases, dtype);
    add_chunks(cases, dtype);
    add_evaluation(cases, dtype);
    for (const auto& part : {fused_conformance_cases, shape_conformance_cases, window_conformance_cases}) {
      for (OpCase& each : part(dtype)) cases.push_back(std::move(each));
    }
  }
  for (const std::int64_t rows : {1, 33}) cases.push_back(cross_entropy_case(rows));
  for (const std::int64_t columns : {0, 3, 7, 33}) cases.push_back(reshape_case(DType::i32, {7, 33}, columns));
  cases.push_back(reshape_case(DType::i32, {1}, 1));
  cases.push_back(reshape_case(DType::i32, {33000}, 1100));
  return cases;
}

std::vector<OpCase> speed_cases() {
  std::vector<OpCase> cases;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const std::int64_t hidden : {256, 768}) {
      const std::int64_t rows = 2048, heads = hidden / 64;
      cases.push_back(matmul_case(dtype, dtype, {rows, 3 * hidden, hidden, false, false, true}));
      cases.push_back(matmul_case(dtype, dtype, {rows, hidden, 3 * hidden, false, true}));
      cases.push_back(matmul_case(dtype, DType::f32, {hidden, 3 * hidden, rows, true, false, false, true}));
      cases.push_back(embedding_case(dtype, rows, 256, hidden, 50257));
      cases.push_back(embedding_backward_case(dtype, rows, 256, hidden, 50257));
      cases.push_back(layer_norm_case(dtype, rows, hidden));
      cases.push_back(layer_norm_backward_case(dtype, rows, hidden));
      cases.push_back(bias_gradient_case(dtype, rows, 4 * hidden));
      cases.push_back(rms_norm_case(dtype, rows, hidden));
      cases.push_back(rms_norm_backward_case(dtype, rows, hidden));
      cases.push_back(rotary_case(dtype, {8, 256, heads, 64}, 10000, false));
      cases.push_back(swiglu_case(dtype, rows, 2 * hidden));
      cases.push_back(swiglu_backward_case(dtype, rows, 2 * hidden));
      for (const OpKind kind : {OpKind::gelu, OpKind::gelu_backward}) {
        cases.push_back(pointwise_case(kind, dtype, rows, 4 * hidden, /*exact=*/true));
      }
      cases.push_back(dropout_case(dtype, rows, hidden, 0.1f));
      for (const DType stream : {DType::f32, DType::i32}) {
        cases.push_back(stream_case(OpKind::reversible_add, dtype, stream, rows, hidden));
        cases.push_back(stream_case(OpKind::read_stream, dtype, stream, rows, hidden));
      }
      for (const OpKind kind : {OpKind::gelu, OpKind::gelu_backward, OpKind::add, OpKind::convert}) {
        cases.push_back(pointwise_case(kind, dtype, rows, 4 * hidden));
      }
      cases.push_back(tree_sum_case(dtype, 8, rows * hidden / 2));
      for (const float probability : {0.0f, 0.1f}) {
        cases.push_back(attention_case(dtype, {8, 256, heads, 64, probability}));
        cases.push_back(attention_backward_case(dtype, {8, 256, heads, 64, probability}));
      }
      cases.push_back(attention_case(dtype, {8, 256, 2 * heads, 32}));
      cases.push_back(attention_backward_case(dtype, {8, 256, 2 * heads, 32}));
      cases.push_back(linear_cross_entropy_backward_case(dtype, rows, hidden, 256));
    }
    cases.push_back(attention_case(dtype, {2, 1024, 12, 64}));
    cases.push_back(attention_backward_case(dtype, {2, 1024, 12, 64}));
    cases.push_back(attention_probabilities_case(dtype, {2, 1024, 12, 64}));
    cases.push_back(attention_probabilities_backward_case(dtype, {2, 1024, 12, 64}));
    cases.push_back(attention_mix_case(dtype, {2, 1024, 12, 64}));
    cases.push_back(attention_mix_backward_case(dtype, {2, 1024, 12, 64}));
    for (const bool causal : {true, false}) {
      cases.push_back(attention_case(dtype, {2, 512, 12, 64, 0, causal ? 4 : 0, causal}));
      cases.push_back(attention_backward_case(dtype, {2, 512, 12, 64, 0, causal ? 4 : 0, causal}));
    }
    cases.push_back(linear_cross_entropy_case(dtype, 512, 768, 50257));
    cases.push_back(linear_cross_entropy_backward_case(dtype, 512, 768, 50257));
  }
  return cases;
}

}  // namespace l2l::test

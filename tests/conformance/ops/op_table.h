// The table of ops that drives every mode: compare, gradient, threads and speed.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "device/device.h"

namespace l2l::test {

// A graph of one op, and the launch parameters it runs with.
struct OpCase {
  std::string name;
  compiler::Graph graph;
  device::LaunchParameters parameters;

  const compiler::Op& op() const { return graph.ops.front(); }
};

struct MatmulCase {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false, bias = false, accumulate = false;
};

struct AttentionCase {
  std::int64_t sequences, sequence, heads, head_dim;
  float probability = 0;
  std::int64_t kv_heads = 0;  // 0: as many as heads
  bool causal = true;

  std::int64_t rows() const { return sequences * sequence; }
  std::int64_t hidden() const { return heads * head_dim; }
  Shape probabilities() const { return {rows() * heads, sequence}; }
  std::int64_t qkv() const { return hidden() + 2 * (kv_heads == 0 ? heads : kv_heads) * head_dim; }
};

OpCase embedding_case(DType dtype, std::int64_t rows, std::int64_t sequence, std::int64_t hidden,
                      std::int64_t vocabulary);
OpCase embedding_backward_case(DType dtype, std::int64_t rows, std::int64_t sequence, std::int64_t hidden,
                               std::int64_t vocabulary);
OpCase layer_norm_case(DType dtype, std::int64_t rows, std::int64_t hidden);
OpCase layer_norm_backward_case(DType dtype, std::int64_t rows, std::int64_t hidden);
OpCase matmul_case(DType input, DType output, const MatmulCase& shape);
OpCase bias_gradient_case(DType dtype, std::int64_t rows, std::int64_t columns);
OpCase accumulate_case(std::int64_t rows, std::int64_t columns);
OpCase tree_sum_case(DType dtype, std::int64_t rows, std::int64_t columns);
// Ops on elements: as many inputs of `dtype` as the op has (convert reads f32). `exact`: of gelu and gelu_backward.
OpCase pointwise_case(compiler::OpKind kind, DType dtype, std::int64_t rows, std::int64_t columns, bool exact = false);
// Columns [first, first + count) of a matrix, copied times a factor or added to times a factor.
OpCase columns_case(compiler::OpKind kind, DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t first,
                    std::int64_t count);
// Without the gradients of the last `parameters` parameters, which are frozen.
OpCase frozen(OpCase test_case, std::size_t parameters);
// With the sum of squares.
OpCase convert_squares_case(DType dtype, std::int64_t rows, std::int64_t columns);
// Of reversible layers; `stream`: f32 or i32, of split_streams also `dtype`.
OpCase stream_case(compiler::OpKind kind, DType dtype, DType stream, std::int64_t rows, std::int64_t columns,
                   bool inverse = false);
OpCase dropout_case(DType dtype, std::int64_t rows, std::int64_t columns, float probability);
OpCase attention_case(DType dtype, const AttentionCase& shape);
OpCase attention_backward_case(DType dtype, const AttentionCase& shape);
OpCase linear_cross_entropy_case(DType dtype, std::int64_t rows, std::int64_t hidden, std::int64_t vocabulary,
                                 bool bias = false);
OpCase linear_cross_entropy_backward_case(DType dtype, std::int64_t rows, std::int64_t hidden, std::int64_t vocabulary,
                                          bool bias = false);
OpCase rms_norm_case(DType dtype, std::int64_t rows, std::int64_t hidden);
OpCase rms_norm_backward_case(DType dtype, std::int64_t rows, std::int64_t hidden);
OpCase rotary_case(DType dtype, const AttentionCase& shape, float base, bool inverse);
// `columns`: of gate, and of up.
OpCase swiglu_case(DType dtype, std::int64_t rows, std::int64_t columns);
OpCase swiglu_backward_case(DType dtype, std::int64_t rows, std::int64_t columns);

// Of a chunk: tokens [kFirstToken, kFirstToken + tokens) of a vocabulary that goes on behind it.
inline constexpr std::int64_t kFirstToken = 5, kTokensBehind = 4;
OpCase embedding_rows_case(DType dtype, std::int64_t rows, std::int64_t hidden, std::int64_t tokens);
OpCase embedding_rows_backward_case(DType dtype, std::int64_t rows, std::int64_t hidden, std::int64_t tokens);
OpCase softmax_statistics_case(DType dtype, std::int64_t rows, std::int64_t hidden, std::int64_t tokens,
                               bool bias = false);
OpCase chunk_cross_entropy_backward_case(DType dtype, std::int64_t rows, std::int64_t hidden, std::int64_t tokens,
                                         bool bias = false);
OpCase cross_entropy_case(std::int64_t rows);
// A loss of rows of one number, or its gradient: squared_error, choice_cross_entropy.
OpCase row_loss_case(compiler::OpKind kind, DType dtype, std::int64_t rows);
OpCase positions_case(DType dtype, std::int64_t rows, std::int64_t sequence, std::int64_t hidden);
OpCase positions_backward_case(DType dtype, std::int64_t rows, std::int64_t sequence, std::int64_t hidden);
OpCase attention_probabilities_case(DType dtype, const AttentionCase& shape);
// `other`: with a gradient to add to.
OpCase attention_probabilities_backward_case(DType dtype, const AttentionCase& shape, bool other = true);
OpCase attention_mix_case(DType dtype, const AttentionCase& shape);
OpCase attention_mix_backward_case(DType dtype, const AttentionCase& shape);
// What fuse() makes, with inputs of [rows, columns]; `last`: with the optional output (sum).
OpCase fused_case(compiler::OpKind kind, DType dtype, std::int64_t rows, std::int64_t columns, float probability = 0,
                  bool last = true);

// The rows of `shape` and a cache with room for `capacity` rows of each sequence.
OpCase cached_attention_case(DType dtype, const AttentionCase& shape, std::int64_t capacity);
OpCase head_norm_case(DType dtype, const AttentionCase& shape);
OpCase head_norm_backward_case(DType dtype, const AttentionCase& shape);

// Of layers of a program's own: their cases are in shape_cases.cpp and window_cases.cpp.
using Dims = std::array<std::int64_t, 4>;
OpCase reshape_case(DType dtype, Shape from, std::int64_t columns);
// `count` columns become those from `first` on of `columns`, times a factor.
OpCase pad_columns_case(DType dtype, std::int64_t rows, std::int64_t count, std::int64_t first, std::int64_t columns);
// `rows` rows of words, in each `its_rows` x `columns` numbers.
OpCase unpack_case(DType dtype, WordElement type, std::int64_t rows, std::int64_t its_rows, std::int64_t columns);
OpCase permute_case(DType dtype, Dims dims, std::array<std::uint8_t, 4> axes);
// broadcast, broadcast_backward or sum; bit i of `kept` for dimension i.
OpCase broadcast_case(compiler::OpKind kind, DType dtype, Dims dims, std::uint32_t kept, float factor = 1);
OpCase lookup_case(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t table_rows);
// gather or its gradient: `taken` of the `rows` rows of each sample.
OpCase gather_case(compiler::OpKind kind, DType dtype, std::int64_t samples, std::int64_t rows, std::int64_t taken,
                   std::int64_t columns);
// upsample, or its gradient, by window.stride; unfold, fold, max_pool, average_pool, depthwise or a gradient.
OpCase window_case(compiler::OpKind kind, DType dtype, Dims dims, const compiler::Window& window);
OpCase group_norm_case(DType dtype, Dims dims, int groups);
OpCase group_norm_backward_case(DType dtype, Dims dims, int groups);
OpCase batch_norm_case(DType dtype, std::int64_t rows, std::int64_t channels, bool training = true);
// `parameters`: 1, the mean alone, or 2.
OpCase batch_statistics_case(std::int64_t rows, std::int64_t channels, std::size_t parameters = 2);
// row_cross_entropy or its gradient.
OpCase row_cross_entropy_case(compiler::OpKind kind, DType dtype, std::int64_t rows, std::int64_t columns);
// sample_loss or its gradient.
OpCase sample_loss_case(compiler::OpKind kind, DType dtype, std::int64_t samples);

// The same case with documents that share sequences: the optional i32 input of attention, attention_backward,
// attention_probabilities, rotary, embedding and positions.
OpCase packed(OpCase original);
// The same case with other attributes, `name` behind its own.
OpCase varied(OpCase original, const std::string& name, const std::function<void(compiler::Attributes&)>& vary);

// Small and odd shapes of every op in f32, bf16 and f16.
std::vector<OpCase> conformance_cases();
std::vector<OpCase> fused_conformance_cases(DType dtype);
std::vector<OpCase> shape_conformance_cases(DType dtype);
std::vector<OpCase> window_conformance_cases(DType dtype);
// Shapes of a training step.
std::vector<OpCase> speed_cases();

}  // namespace l2l::test

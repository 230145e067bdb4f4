// Cases of the ops of a program's own layers that move elements, sum over dimensions, or work on rows.
#include <algorithm>

#include "tests/conformance/ops/case_builder.h"

namespace l2l::test {
namespace {

using compiler::OpKind;
using Axes = std::array<std::uint8_t, 4>;

std::string name_of_dims(const Dims& dims) { return join({dims[0], dims[1], dims[2], dims[3]}); }

// The matrix that stands for `dims`.
Shape matrix_of(const Dims& dims) { return {dims[0] * dims[1] * dims[2], dims[3]}; }

void add_moves(std::vector<OpCase>& cases, DType dtype) {
  for (const auto& [rows, count, first, columns] :
       {Dims{1, 1, 0, 1}, {1, 7, 26, 33}, {7, 8, 0, 33}, {7, 7, 5, 33}, {33, 24, 8, 64}, {100, 331, 8, 363}}) {
    cases.push_back(pad_columns_case(dtype, rows, count, first, columns));
  }
  cases.push_back(pad_columns_case(dtype, 33, 33, 0, 33));
  cases.push_back(pad_columns_case(dtype, 1100, 33, 8, 41));
  for (const WordElement type : {WordElement::u8, WordElement::f16, WordElement::bf16}) {
    cases.push_back(unpack_case(dtype, type, 1, 1, 1));
    cases.push_back(unpack_case(dtype, type, 3, 5, 7));
    cases.push_back(unpack_case(dtype, type, 2, 4, 8));
    cases.push_back(unpack_case(dtype, type, 33, 28, 84));
  }
  cases.push_back(reshape_case(dtype, {1, 1}, 0));
  cases.push_back(reshape_case(dtype, {1, 33}, 1));
  cases.push_back(reshape_case(dtype, {33}, 11));
  cases.push_back(reshape_case(dtype, {33}, 0));
  cases.push_back(reshape_case(dtype, {2, 3, 5, 7}, 35));
  for (const std::int64_t columns : {0, 8, 33, 792}) cases.push_back(reshape_case(dtype, {33, 24}, columns));
  for (const std::int64_t columns : {0, 50}) cases.push_back(reshape_case(dtype, {100, 331}, columns));
}

// All orders of four dimensions; then larger ones, dimensions of 1, tiles of a transposition with a rest.
void add_permutations(std::vector<OpCase>& cases, DType dtype) {
  Axes axes = {0, 1, 2, 3};
  do {
    cases.push_back(permute_case(dtype, {2, 3, 5, 7}, axes));
  } while (std::next_permutation(axes.begin(), axes.end()));
  const Axes inner_swapped = {0, 1, 3, 2}, middle_swapped = {0, 2, 1, 3}, channels_first = {0, 3, 1, 2},
             channels_last = {0, 2, 3, 1}, reversed = {3, 2, 1, 0};
  for (const Axes& each : {Axes{0, 1, 2, 3}, inner_swapped, middle_swapped, channels_first, channels_last, reversed}) {
    cases.push_back(permute_case(dtype, {1, 1, 1, 1}, each));
    cases.push_back(permute_case(dtype, {1, 1, 1, 33}, each));
    cases.push_back(permute_case(dtype, {3, 33, 7, 40}, each));
  }
  cases.push_back(permute_case(dtype, {1, 1, 130, 129}, inner_swapped));
  cases.push_back(permute_case(dtype, {2, 50, 4, 64}, middle_swapped));
}

// All combinations of kept dimensions; then larger ones, dimensions of 1, long rows, many rows.
void add_broadcasts(std::vector<OpCase>& cases, DType dtype, OpKind kind) {
  constexpr std::uint32_t kAll = 0xf, kLast = 8, kAllButLast = 7, kMiddle = 6, kEnds = 9, kEveryOther = 10;
  for (std::uint32_t kept = 0; kept <= kAll; ++kept) {
    cases.push_back(broadcast_case(kind, dtype, {2, 3, 5, 7}, kept, kept % 2 == 0 ? 0.3f : 1));
  }
  for (const std::uint32_t kept : {0u, 1u, kLast, kAllButLast, kMiddle, kEnds, kEveryOther, kAll}) {
    cases.push_back(broadcast_case(kind, dtype, {3, 20, 33, 7}, kept, 0.3f));
  }
  for (const std::uint32_t kept : {0u, kLast, kAll}) {
    cases.push_back(broadcast_case(kind, dtype, {1, 1, 1, 1}, kept));
    cases.push_back(broadcast_case(kind, dtype, {1, 1, 1, 33}, kept));
    cases.push_back(broadcast_case(kind, dtype, {6, 1, 50, 1}, kept));
  }
  for (const std::uint32_t kept : {kLast, kAllButLast}) {
    cases.push_back(broadcast_case(kind, dtype, {1, 1, 5, 2056}, kept));
    cases.push_back(broadcast_case(kind, dtype, {1, 1, 1, 16392}, kept, 0.3f));
    cases.push_back(broadcast_case(kind, dtype, {1, 1, 4229, 24}, kept));
  }
}

void add_rows(std::vector<OpCase>& cases, DType dtype) {
  for (const std::int64_t rows : {1, 7, 33, 200}) {
    for (const std::int64_t columns : {3, 7, 33, 160}) {
      cases.push_back(pointwise_case(OpKind::softmax, dtype, rows, columns));
      cases.push_back(pointwise_case(OpKind::softmax_backward, dtype, rows, columns));
    }
  }
  cases.push_back(pointwise_case(OpKind::softmax, dtype, 7, 1));
  for (const std::int64_t columns : {520, 1031, 4104, 16392}) {
    cases.push_back(pointwise_case(OpKind::softmax, dtype, 3, columns));
    cases.push_back(pointwise_case(OpKind::softmax_backward, dtype, 3, columns));
  }
  cases.push_back(pointwise_case(OpKind::softmax, dtype, 2101, 17));
  cases.push_back(pointwise_case(OpKind::softmax_backward, dtype, 2101, 17));
  cases.push_back(lookup_case(dtype, 1, 7, 1));
  cases.push_back(lookup_case(dtype, 7, 8, 3));
  cases.push_back(lookup_case(dtype, 33, 33, 11));
  cases.push_back(lookup_case(dtype, 1100, 33, 50));
  for (const OpKind kind : {OpKind::gather, OpKind::gather_backward}) {
    cases.push_back(gather_case(kind, dtype, 1, 1, 1, 1));
    cases.push_back(gather_case(kind, dtype, 3, 7, 4, 8));
    cases.push_back(gather_case(kind, dtype, 2, 5, 33, 33));
    cases.push_back(gather_case(kind, dtype, 5, 33, 50, 200));
  }
}

}  // namespace

OpCase reshape_case(DType dtype, Shape from, std::int64_t columns) {
  CaseBuilder builder(OpKind::reshape, dtype);
  builder.attributes().columns = columns;
  for (std::size_t i = 0; i < from.rank(); ++i) builder.named(std::to_string(from[i]));
  builder.named("to" + std::to_string(columns)).input(from);
  return builder.output(columns == 0 ? from : Shape{from.elements() / columns, columns}).checked();
}

OpCase pad_columns_case(DType dtype, std::int64_t rows, std::int64_t count, std::int64_t first, std::int64_t columns) {
  CaseBuilder builder(OpKind::pad_columns, dtype);
  builder.attributes().first = first;
  builder.attributes().columns = columns;
  builder.attributes().factor = 0.5f;
  builder.named(join({rows, count, first, columns})).input({rows, count});
  return builder.output({rows, columns}).checked();
}

OpCase unpack_case(DType dtype, WordElement type, std::int64_t rows, std::int64_t its_rows, std::int64_t columns) {
  static constexpr const char* kNames[] = {"words", "u8", "f16", "bf16"};
  CaseBuilder builder(OpKind::unpack, dtype);
  builder.attributes().word_element = type;
  builder.attributes().dims = {rows, its_rows, columns, 1};
  builder.named(kNames[static_cast<int>(type)]).named(join({rows, its_rows, columns}));
  builder.input(DType::i32, {rows, words_for(type, its_rows * columns)});
  return builder.output({rows * its_rows, columns}).checked();
}

OpCase permute_case(DType dtype, Dims dims, Axes axes) {
  CaseBuilder builder(OpKind::permute, dtype);
  builder.attributes().dims = dims;
  builder.attributes().axes = axes;
  builder.named(name_of_dims(dims)).named(join({axes[0], axes[1], axes[2], axes[3]})).input(matrix_of(dims));
  return builder.output(matrix_of({dims[axes[0]], dims[axes[1]], dims[axes[2]], dims[axes[3]]})).checked();
}

OpCase broadcast_case(OpKind kind, DType dtype, Dims dims, std::uint32_t kept, float factor) {
  CaseBuilder builder(kind, dtype);
  builder.attributes().dims = dims;
  builder.attributes().kept = kept;
  builder.attributes().factor = factor;
  builder.named(name_of_dims(dims)).named("kept" + std::to_string(kept));
  if (factor != 1) builder.named("factor");
  Dims of_kept;
  for (std::size_t i = 0; i < dims.size(); ++i) of_kept[i] = (kept >> i & 1u) != 0 ? dims[i] : 1;
  const Shape all = matrix_of(dims), part = matrix_of(of_kept);
  if (kind == OpKind::broadcast) return builder.input(part).output(all).checked();
  if (kind == OpKind::sum) return builder.input(all).output(part).checked();
  return builder.input(all).output(DType::f32, {part.elements()}).checked();  // a parameter has any shape
}

OpCase lookup_case(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t table_rows) {
  CaseBuilder builder(OpKind::lookup, dtype);
  builder.named(join({rows, columns, table_rows})).input(DType::i32, {rows}).input({table_rows, columns});
  return builder.output({rows, columns}).checked();
}

OpCase gather_case(OpKind kind, DType dtype, std::int64_t samples, std::int64_t rows, std::int64_t taken,
                   std::int64_t columns) {
  CaseBuilder builder(kind, dtype);
  builder.attributes().dims = {samples, rows, 1, columns};
  builder.named(join({samples, rows, taken, columns}));
  const Shape x{samples * rows, columns}, y{samples * taken, columns}, indices{samples * taken};
  if (kind == OpKind::gather) return builder.input(x).input(DType::i32, indices).output(y).checked();
  return builder.input(DType::i32, indices).input(y).output(x).checked();
}

OpCase row_cross_entropy_case(OpKind kind, DType dtype, std::int64_t rows, std::int64_t columns) {
  const bool backward = kind == OpKind::row_cross_entropy_backward;
  CaseBuilder builder(kind, dtype);
  builder.named(join({rows, columns}));
  if (backward) builder.input(DType::f32, {rows, 1});
  builder.input({rows, columns}).input(DType::i32, {rows});
  if (backward) return builder.output({rows, columns}).checked();
  return builder.output(DType::f32, {rows, 1}).checked();
}

OpCase sample_loss_case(OpKind kind, DType dtype, std::int64_t samples) {
  CaseBuilder builder(kind, dtype);
  builder.named(join({samples})).input({samples, 1}).input(DType::i32, {samples}).output(DType::f64, {1});
  if (kind == OpKind::sample_loss_backward) builder.output({samples, 1});
  return builder.checked();
}

std::vector<OpCase> shape_conformance_cases(DType dtype) {
  std::vector<OpCase> cases;
  add_moves(cases, dtype);
  add_permutations(cases, dtype);
  for (const OpKind kind : {OpKind::broadcast, OpKind::broadcast_backward, OpKind::sum}) {
    add_broadcasts(cases, dtype, kind);
  }
  add_rows(cases, dtype);
  return cases;
}

}  // namespace l2l::test

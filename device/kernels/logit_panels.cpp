#include "device/kernels/logit_panels.h"

#include <algorithm>

namespace l2l::device::cuda {
namespace {

constexpr std::int64_t kStep = 64;        // of cuts
constexpr std::int64_t kMostRows = 4096;  // a product of that many is efficient
constexpr std::int64_t kMostTokens = 8192;
constexpr std::int64_t kFewRows = 512;

std::int64_t cut_down(std::int64_t count) { return std::max(kStep, count / kStep * kStep); }

// Blocks of nearly the same size, at most `most` (a multiple of kStep).
kernels::Partition even_cuts(std::int64_t total, std::int64_t most) {
  if (total <= most) return {total, total};
  const std::int64_t blocks = (total + most - 1) / most;
  return {total, ((total + blocks - 1) / blocks + kStep - 1) / kStep * kStep};
}

std::int64_t fitting(Bytes limit, std::int64_t elements) {
  return static_cast<std::int64_t>(limit / sizeof(float)) / elements;
}

}  // namespace

LogitPanels LogitPanels::parts(std::int64_t rows, std::int64_t vocabulary, Bytes limit) {
  LogitPanels panels{even_cuts(rows, kMostRows), {}};
  panels.tokens = even_cuts(vocabulary, std::min(kMostTokens, cut_down(fitting(limit, panels.rows.size))));
  return panels;
}

LogitPanels LogitPanels::whole_rows(std::int64_t rows, std::int64_t vocabulary, Bytes limit) {
  LogitPanels panels{{}, {vocabulary, vocabulary}};
  const std::int64_t most = fitting(limit, panels.stride());
  if (most < std::min(rows, kFewRows)) return parts(rows, vocabulary, limit);
  panels.rows = rows <= std::min(most, kMostRows) ? kernels::Partition{rows, rows}
                                                  : even_cuts(rows, std::min(cut_down(most), kMostRows));
  return panels;
}

LogitPanels LogitPanels::of_share(std::int64_t rows, std::int64_t share, std::int64_t own, Bytes limit) {
  LogitPanels panels = whole_rows(rows, share, limit);
  panels.tokens = even_cuts(own, panels.tokens.size);
  return panels;
}

MatmulShape logits_shape(const LogitPanels& panels, std::int64_t rows, std::int64_t tokens, std::int64_t hidden,
                         DType dtype) {
  return {.m = rows, .n = tokens, .k = hidden, .input = dtype, .transpose_b = true, .stride_y = panels.stride()};
}

MatmulShape dx_shape(const LogitPanels& panels, std::int64_t rows, std::int64_t tokens, std::int64_t hidden,
                     DType dtype, DType output) {
  const std::int64_t stride = panels.stride() * static_cast<std::int64_t>(sizeof(float) / size_of(dtype));
  return {.m = rows, .n = hidden, .k = tokens, .input = dtype, .output = output, .stride_a = stride};
}

MatmulShape dtable_shape(const LogitPanels& panels, std::int64_t rows, std::int64_t tokens, std::int64_t hidden,
                         DType dtype) {
  MatmulShape shape = dx_shape(panels, tokens, rows, hidden, dtype, DType::f32);
  shape.transpose_a = shape.accumulate = true;
  return shape;
}

}  // namespace l2l::device::cuda

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

MatmulShape logits_shape(const LogitPanels& panels, std::int64_t rows, std::int64_t tokens, std::int64_t hidden,
                         DType dtype) {
  MatmulShape shape;
  shape.m = rows;
  shape.n = tokens;
  shape.k = hidden;
  shape.input = dtype;
  shape.transpose_b = true;
  shape.stride_y = panels.stride();
  return shape;
}

MatmulShape dx_shape(const LogitPanels& panels, std::int64_t rows, std::int64_t tokens, std::int64_t hidden,
                     DType dtype, DType output) {
  MatmulShape shape;
  shape.m = rows;
  shape.n = hidden;
  shape.k = tokens;
  shape.input = dtype;
  shape.output = output;
  shape.stride_a = panels.stride() * static_cast<std::int64_t>(sizeof(float) / size_of(dtype));
  return shape;
}

MatmulShape dtable_shape(const LogitPanels& panels, std::int64_t rows, std::int64_t tokens, std::int64_t hidden,
                         DType dtype) {
  MatmulShape shape = dx_shape(panels, rows, tokens, hidden, dtype, DType::f32);
  shape.m = tokens;
  shape.k = rows;
  shape.transpose_a = true;
  return shape;
}

}  // namespace l2l::device::cuda

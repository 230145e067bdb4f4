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

bool is_rest(const kernels::Partition& partition, std::int64_t block) {
  return partition.end(block) - partition.begin(block) < partition.size;
}

std::vector<std::int64_t> sizes(const kernels::Partition& partition) {
  std::vector<std::int64_t> result = {partition.size};
  if (partition.total % partition.size != 0) result.push_back(partition.total % partition.size);
  return result;
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

PanelProduct::PanelProduct(const Context& context, const LogitPanels& panels, const ShapeOf& shape_of)
    : panels_(panels) {
  for (const std::int64_t rows : sizes(panels.rows)) {
    for (const std::int64_t tokens : sizes(panels.tokens)) plans_.emplace_back(context, shape_of(rows, tokens));
  }
}

Bytes PanelProduct::workspace() const {
  Bytes bytes = 0;
  for (const MatmulPlan& plan : plans_) bytes = std::max(bytes, plan.workspace());
  return bytes;
}

const MatmulPlan& PanelProduct::at(std::int64_t chunk, std::int64_t part) const {
  const std::size_t widths = sizes(panels_.tokens).size();
  return plans_[(is_rest(panels_.rows, chunk) ? widths : 0) + (is_rest(panels_.tokens, part) ? 1 : 0)];
}

}  // namespace l2l::device::cuda

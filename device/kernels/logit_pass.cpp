#include "device/kernels/logit_pass.h"

#include <algorithm>
#include <string>

#include "l2l/errors.h"

namespace l2l::device::cuda {
namespace {

// Row `row` of a row-major matrix of `columns` elements of `dtype`.
const std::byte* row_of(const std::byte* matrix, std::int64_t row, std::int64_t columns, DType dtype) {
  return matrix + static_cast<Bytes>(row * columns) * size_of(dtype);
}

void require_supported(const OpView& op) {
  const DType x = op.input(0).dtype, table = op.input(1).dtype;
  if (is_compute_type(x) && x == table && op.input(2).dtype == DType::i32) return;
  throw BadInput("no CUDA loss of " + std::string(name_of(x)) + " and a table of " + std::string(name_of(table)) +
                 ": both are f32, bf16 or f16, targets i32");
}

}  // namespace

LogitPass::LogitPass(const Context& context, const OpView& op, const LogitPanels& panels, std::optional<DType> dx,
                     bool chunk, std::size_t bias)
    : dtype_((require_supported(op), op.input(0).dtype)),
      hidden_(op.input(0).shape[1]),
      vocabulary_(chunk || op.attributes.shard.count > 1 ? op.attributes.vocabulary : op.input(1).shape[0]),
      first_token_(op.attributes.first),
      chunk_(chunk),
      bias_position_(bias),
      bias_(op.inputs.size() > bias),
      softcap_(op.attributes.softcap),
      panels_(panels),
      exchange_(op),
      logits_(panels.rows, panels.tokens, [&](std::int64_t rows, std::int64_t tokens) {
        const MatmulShape shape = logits_shape(panels, rows, tokens, hidden_, dtype_);
        return TokenProduct(context, shape, TokenProduct::Tokens::columns);
      }) {
  if (!dx) return;
  dx_.emplace(panels.rows, panels.tokens, [&](std::int64_t rows, std::int64_t tokens) {
    const MatmulShape shape = dx_shape(panels, rows, tokens, hidden_, dtype_, *dx);
    return TokenProduct(context, shape, TokenProduct::Tokens::sum);
  });
  dtable_.emplace(panels.rows, panels.tokens, [&](std::int64_t rows, std::int64_t tokens) {
    const MatmulShape shape = dtable_shape(panels, rows, tokens, hidden_, dtype_);
    return TokenProduct(context, shape, TokenProduct::Tokens::rows);
  });
}

LogitOperands LogitPass::logits_of(Operands operands, double* statistics, const LaunchParameters* parameters) const {
  return {operands[0], operands[1], bias_ ? operands[bias_position_] : nullptr, as<std::int32_t>(operands[2]),
          statistics,  parameters};
}

LogitPass::Buffers LogitPass::take(kernels::WorkspaceCutter& cutter) const {
  Bytes products = logits_.workspace();
  if (dx_) products = std::max({products, dx_->workspace(), dtable_->workspace()});
  Buffers buffers{};
  buffers.products = cutter.take<std::byte>(static_cast<std::int64_t>(products));
  buffers.logits = cutter.take<float>(panels_.elements());
  if (dx_ && bias_) buffers.sums = cutter.take<std::byte>(static_cast<std::int64_t>(sums_bytes()));
  if (exchanges()) {
    buffers.own_states = cutter.take<RowState>(panels_.rows.size);
    buffers.states = cutter.take<RowState>(exchange_.members() * panels_.rows.size);
  }
  return buffers;
}

// Of the panel that needs most: the last chunk and the last part may be smaller, and cut into more slabs.
Bytes LogitPass::sums_bytes() const {
  Bytes bytes = 0;
  for (const std::int64_t chunk : {std::int64_t{0}, panels_.rows.count() - 1}) {
    for (const std::int64_t part : {std::int64_t{0}, panels_.tokens.count() - 1}) {
      bytes = std::max(
          bytes, column_sums_workspace(dtype_, panels_.rows_of(chunk), panels_.tokens_of(part), panels_.stride()));
    }
  }
  return bytes;
}

LogitPanel LogitPass::panel(std::int64_t chunk, std::int64_t part, const LogitOperands& operands, float* logits) const {
  const std::int64_t row = panels_.rows.begin(chunk), token = panels_.tokens.begin(part);
  LogitPanel panel{};
  panel.logits = logits;
  panel.stride = panels_.stride();
  panel.rows = panels_.rows_of(chunk);
  panel.tokens = panels_.tokens_of(part);
  panel.bias = operands.bias ? row_of(operands.bias, token, 1, dtype_) : nullptr;
  panel.targets = operands.targets + row;
  panel.statistics = operands.statistics + row * 3;
  panel.first = first_token_ + token;
  panel.vocabulary = vocabulary_;
  panel.chunk = chunk_;
  panel.softcap = softcap_;
  return panel;
}

void LogitPass::run(std::int64_t chunk, std::int64_t part, SoftmaxStep step, const LogitOperands& operands,
                    const Buffers& buffers, cudaStream_t stream) const {
  const std::byte* x = row_of(operands.x, panels_.rows.begin(chunk), hidden_, dtype_);
  const std::byte* table = row_of(operands.table, panels_.tokens.begin(part), hidden_, dtype_);
  logits_.at(chunk, part)
      .enqueue({x, table, reinterpret_cast<std::byte*>(buffers.logits)}, false, buffers.products, stream);
  softmax(chunk, part, step, operands, buffers, stream);
}

void LogitPass::softmax(std::int64_t chunk, std::int64_t part, SoftmaxStep step, const LogitOperands& operands,
                        const Buffers& buffers, cudaStream_t stream) const {
  enqueue_softmax(step, dtype_, panel(chunk, part, operands, buffers.logits), operands.parameters, stream);
}

void LogitPass::merge(std::int64_t chunk, const LogitOperands& operands, const Buffers& buffers,
                      cudaStream_t stream) const {
  const std::int64_t rows = panels_.rows_of(chunk), first = panels_.rows.begin(chunk);
  const std::int32_t* const targets = operands.targets + first;
  double* const statistics = operands.statistics + first * 3;
  enqueue_pack_states(statistics, targets, rows, buffers.own_states, stream);
  exchange_.all_gather(reinterpret_cast<const std::byte*>(buffers.own_states),
                       reinterpret_cast<std::byte*>(buffers.states), static_cast<Bytes>(rows) * sizeof(RowState),
                       stream);
  enqueue_merge_states(buffers.states, exchange_.members(), targets, rows, statistics, stream);
}

void LogitPass::multiply(std::int64_t chunk, std::int64_t part, const LogitOperands& operands,
                         const LogitGradients& gradients, const Buffers& buffers, cudaStream_t stream) const {
  const std::int64_t token = panels_.tokens.begin(part);
  const auto* dlogits = reinterpret_cast<const std::byte*>(buffers.logits);
  const std::byte* x = row_of(operands.x, panels_.rows.begin(chunk), hidden_, dtype_);
  const std::byte* table = row_of(operands.table, token, hidden_, dtype_);
  dx_->at(chunk, part).enqueue({dlogits, table, gradients.dx}, gradients.add_to_dx, buffers.products, stream);
  if (!gradients.dtable) return;
  auto* dtable = reinterpret_cast<std::byte*>(gradients.dtable + token * hidden_);
  dtable_->at(chunk, part).enqueue({dlogits, x, dtable}, true, buffers.products, stream);
  if (!gradients.dbias) return;
  enqueue_column_sums(dtype_, panel(chunk, part, operands, buffers.logits), gradients.dbias + token, buffers.sums,
                      stream);
}

}  // namespace l2l::device::cuda

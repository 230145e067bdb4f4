#include "runtime/layer_runner.h"

#include <algorithm>

namespace l2l::runtime {

using compiler::Region;
using device::Bindings;
using device::BufferView;

LayerRunner::LayerRunner(transfer::Link& link, std::vector<ModelPrograms> lengths, const ArenaPlan& plan,
                         BufferView arena, std::uint64_t seed, int first_microbatch)
    : link_(link),
      device_(link.device()),
      lengths_(std::move(lengths)),
      model_(*lengths_.back().model),
      programs_(*lengths_.back().programs),
      seed_(seed),
      first_microbatch_(first_microbatch),
      plan_(plan),
      arena_(arena),
      inputs_(plan.views(ArenaPart::inputs, arena)),
      targets_(plan.views(ArenaPart::targets, arena)),
      row_fields_(plan.views(ArenaPart::row_fields, arena)),
      losses_(plan.views(ArenaPart::losses, arena)),
      logits_(plan.views(ArenaPart::logits, arena)),
      carry_(plan.views(ArenaPart::carry, arena)),
      compute_(link.create_stream("compute")) {
  length_of_.assign(losses_.size(), longest());
}

void LayerRunner::forward(int layer, int microbatch, const Operands& operands) {
  launch(*of(microbatch).programs->of(layer).forward, phase_of(model_, layer, false), layer, microbatch, operands);
}

void LayerRunner::backward(int layer, int microbatch, const Operands& operands) {
  launch(*of(microbatch).programs->of(layer).backward, phase_of(model_, layer, true), layer, microbatch, operands);
}

void LayerRunner::predict(int layer, std::int64_t row, BufferView wire, BufferView input, BufferView normed,
                          const TakeRow& take) {
  const bool only_norm = model_.head_in_chunks() && layer == model_.head();
  const BufferView output = only_norm ? normed : logits_of(layer);
  launch(*programs_.of(layer).logits, Phase::head, layer, 0,
         {.wire = wire, .input = input, .output = output, .normed = normed});
  if (!only_norm) take(row, model_.first_token(layer), output);
}

void LayerRunner::round_gradients(int layer, BufferView gradients, BufferView drained) {
  Bindings bindings;
  bindings[Region::gradients] = gradients;
  bindings[Region::drained] = drained;
  bindings[Region::scratch] = plan_.scratch(phase_of(model_, layer, true), arena_);
  const device::Executable& program = *programs_.of(layer).drain;
  device_.launch(*compute_, program, bindings, parameters(layer, 0));
  link_.count_exchanged(program.received_bytes());
}

void LayerRunner::add_gradients(int layer, BufferView sums, BufferView others) {
  Bindings bindings;
  bindings[Region::output_gradient] = others;
  bindings[Region::gradients] = sums;
  device_.launch(*compute_, *programs_.of(layer).add, bindings, parameters(layer, 0));
}

void LayerRunner::sum_over_devices(int layer, BufferView gradients, BufferView sums, device::Stream& stream) const {
  Bindings bindings;
  bindings[Region::output_gradient] = gradients;
  bindings[Region::drained] = sums;
  device_.launch(stream, *programs_.of(layer).sum, bindings,
                 {.layer = model_.layout.layers[static_cast<std::size_t>(layer)].id});
}

// Logits of one token over the rows of the table in `layer`.
BufferView LayerRunner::logits_of(int layer) const {
  const std::int64_t tokens = std::min(model_.logits_tokens(), model_.outputs() - model_.first_token(layer));
  const BufferView room = logits_.empty() ? carry_[0] : logits_[0];
  return room.slice(0, static_cast<Bytes>(tokens) * size_of(model_.compute));
}

device::LaunchParameters LayerRunner::parameters(int layer, int microbatch) const {
  return {.seed = seed_,
          .step = static_cast<std::uint32_t>(pass_.step),
          .layer = model_.layout.layers[static_cast<std::size_t>(layer)].id,
          .microbatch = static_cast<std::uint32_t>(first_microbatch_ + microbatch),
          .training = pass_.training,
          .dropout_masks = pass_.dropout_masks,
          .first_token = model_.first_token(layer),
          .loss_scale = pass_.loss_scale};
}

void LayerRunner::launch(const device::Executable& program, Phase phase, int layer, int microbatch,
                         const Operands& operands) {
  const auto u = static_cast<std::size_t>(microbatch);
  Bindings bindings;
  bindings[Region::tokens] = inputs_[u];
  bindings[Region::targets] = targets_[u];
  if (model_.packed) bindings[Region::rows] = row_fields_[u];
  bindings[Region::loss] = losses_[u];
  bindings[Region::weights] = operands.wire;
  bindings[Region::input] = operands.input;
  bindings[Region::output] = operands.output;
  bindings[Region::saved] = operands.saved;
  bindings[Region::output_gradient] = operands.output_gradient;
  bindings[Region::input_gradient] = operands.input_gradient;
  bindings[Region::gradients] = operands.gradients;
  bindings[Region::normed] = operands.normed;
  bindings[Region::carry] = operands.carry;
  bindings[Region::scratch] = plan_.scratch(phase, arena_);
  device_.annotate(*compute_, layer, first_microbatch_ + microbatch);
  device_.launch(*compute_, program, bindings, parameters(layer, microbatch));
  link_.count_rows(program.received_bytes());
}

}  // namespace l2l::runtime
